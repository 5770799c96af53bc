//! What is set for the whole store.

use std::collections::BTreeMap;
use std::sync::Arc;

use taskq_core::model::ActorName;
use taskq_core::store::{ActorChanges, Setting, SettingSummary, StoreError};

use super::Calls;
use crate::codec::{Columns, Jsonb, JsonbText, interval_text, only};

impl Calls {
    pub(super) async fn set_setting(self: Arc<Self>, setting: Setting) -> Result<(), StoreError> {
        let value = match setting {
            Setting::EventLevel(level) => format!("\"{}\"", level.as_str()),
            Setting::EventRetentionPeriod(span)
            | Setting::ResultTtl(span)
            | Setting::HotPeriod(span)
            | Setting::FailedHotPeriod(span)
            | Setting::ArchiveRetentionPeriod(span) => {
                format!("\"{}\"", interval_text(span))
            }
            Setting::EventRetentionBatchSize(size) => size.to_string(),
        };
        let statement = &self.statements.set_setting;
        self.client.query(statement, &[&setting.name(), &JsonbText(value)]).await.map(drop)
    }

    pub(super) async fn set_actor(
        self: Arc<Self>,
        actor: ActorName,
        changes: ActorChanges,
    ) -> Result<bool, StoreError> {
        let given = [("hot_period", changes.hot_period), ("failed_hot_period", changes.failed_hot_period)];
        let fields: BTreeMap<&str, Option<String>> =
            given.into_iter().filter_map(|(name, change)| Some((name, change?.map(interval_text)))).collect();
        let changes =
            serde_json::to_string(&fields).map_err(|error| StoreError::invalid(error.to_string()))?;
        let statement = &self.statements.set_actor;
        let rows = self.client.query(statement, &[&actor.as_str(), &JsonbText(changes)]).await?;
        Columns::of(only(&rows)?).read()
    }

    pub(super) async fn settings(self: Arc<Self>) -> Result<Vec<SettingSummary>, StoreError> {
        let rows = self.client.query(&self.statements.settings, &[&Setting::NAMES.to_vec()]).await?;
        rows.iter()
            .map(|row| {
                let mut columns = Columns::of(row);
                Ok(SettingSummary {
                    name: columns.read()?,
                    value: columns.read::<Option<Jsonb>>()?.map(|json| json.0),
                    problem: columns.read()?,
                })
            })
            .collect()
    }
}
