//! What is set for the whole store.

use std::sync::Arc;

use taskq_core::store::{Setting, SettingSummary, StoreError};

use super::Calls;
use crate::codec::{Columns, Jsonb, JsonbText, interval_text};

impl Calls {
    pub(super) async fn set_setting(self: Arc<Self>, setting: Setting) -> Result<(), StoreError> {
        let value = match setting {
            Setting::EventLevel(level) => format!("\"{}\"", level.as_str()),
            Setting::EventRetentionPeriod(span) | Setting::ResultTtl(span) => {
                format!("\"{}\"", interval_text(span))
            }
            Setting::EventRetentionBatchSize(size) => size.to_string(),
        };
        let statement = &self.statements.set_setting;
        self.client.query(statement, &[&setting.name(), &JsonbText(value)]).await.map(drop)
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
