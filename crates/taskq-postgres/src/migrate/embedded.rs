//! The files that this program carries. A test holds the lists against the directories.

macro_rules! files {
    ($directory:literal: $($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../sql/", $directory, "/", $name))),)*]
    };
}

/// Migrations, by name.
pub(super) const MIGRATIONS: &[(&str, &str)] = files!("migrations":
    "01.00.00_01_pre_initial.sql",
    "01.00.00_02_pre_rescue.sql",
    "01.00.00_03_pre_round_robin.sql",
    "01.00.00_04_pre_sweeps.sql",
    "01.00.00_05_pre_archive.sql",
    "01.00.00_06_pre_roles.sql",
    "01.00.00_09_pre_hooks.sql",
    "01.00.00_10_pre_checks.sql",
    "01.00.00_11_pre_checks_validated.sql",
);

/// Functions, by name.
pub(super) const FUNCTIONS: &[(&str, &str)] = files!("functions":
    "archive_expiry.sql",
    "archive_month.sql",
    "archive_months.sql",
    "archive_rows.sql",
    "archived_ids.sql",
    "archived_job.sql",
    "archived_staged.sql",
    "bring_back.sql",
    "cancel.sql",
    "cancel_ids.sql",
    "cancel_matching.sql",
    "check_claim.sql",
    "check_ids.sql",
    "check_jobs.sql",
    "check_lane_part.sql",
    "check_lease.sql",
    "check_max_rows.sql",
    "check_staged.sql",
    "claim.sql",
    "claim_group.sql",
    "claim_lane.sql",
    "claim_slots.sql",
    "claim_turns.sql",
    "clip.sql",
    "clock.sql",
    "clock_now.sql",
    "complete.sql",
    "delay_problem.sql",
    "detail_problem.sql",
    "document_problem.sql",
    "document_rows.sql",
    "enqueue.sql",
    "enqueue_answers.sql",
    "enqueue_keyed.sql",
    "enqueue_many.sql",
    "enqueue_plain.sql",
    "enqueue_staged.sql",
    "error_record.sql",
    "event_horizon.sql",
    "event_level.sql",
    "expire_archive.sql",
    "fail_late.sql",
    "fairness_problem.sql",
    "filter_statuses.sql",
    "forget_keys.sql",
    "forget_workers.sql",
    "grant_role.sql",
    "has_archive_month.sql",
    "heartbeat.sql",
    "held.sql",
    "hold_hook.sql",
    "hot_until.sql",
    "id_floor.sql",
    "id_millis.sql",
    "interval_setting.sql",
    "json_bytes.sql",
    "lead.sql",
    "make_archive_month.sql",
    "make_id.sql",
    "mark_lost.sql",
    "matching.sql",
    "merge_cohorts.sql",
    "name_problem.sql",
    "note_sweeps.sql",
    "obviously_valid.sql",
    "outcome_problem.sql",
    "pause.sql",
    "prepare_staging.sql",
    "progress_problem.sql",
    "promote.sql",
    "prune.sql",
    "reclaim.sql",
    "reclaim_rows.sql",
    "refuse.sql",
    "register_worker.sql",
    "release_worker.sql",
    "renew_grants.sql",
    "request_restamp.sql",
    "require_leader.sql",
    "require_read_committed.sql",
    "result_expiry.sql",
    "resume.sql",
    "retry.sql",
    "retry_delay.sql",
    "retry_ids.sql",
    "retry_matching.sql",
    "retry_policy_problem.sql",
    "revoke_role.sql",
    "rights.sql",
    "seeded_id.sql",
    "set_actor.sql",
    "set_queue.sql",
    "set_setting.sql",
    "setting_problem.sql",
    "settle.sql",
    "settle_batch.sql",
    "settle_each.sql",
    "settle_succeeded.sql",
    "staged_documents.sql",
    "start_turn.sql",
    "sweep_archive.sql",
    "sweep_backlog.sql",
    "sweep_deadlines.sql",
    "sweep_events.sql",
    "sweep_head.sql",
    "sweep_restamp.sql",
    "sweep_results.sql",
    "sweep_rows.sql",
    "sweeps_due.sql",
    "tags_problem.sql",
    "take_keys.sql",
    "time_problem.sql",
    "wake.sql",
    "withdraw_grants.sql",
);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn directory(name: &str) -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sql").join(name);
        let entries = std::fs::read_dir(path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "sql"));
        names.sort();
        names
    }

    #[test]
    fn every_file_is_listed_in_order() {
        for (name, list) in [("migrations", MIGRATIONS), ("functions", FUNCTIONS)] {
            let listed: Vec<_> = list.iter().map(|(name, _)| (*name).to_owned()).collect();
            assert_eq!(listed, directory(name), "{name}");
        }
    }

    #[test]
    fn every_function_stands_in_the_file_of_its_name() {
        for (file, sql) in FUNCTIONS {
            let name = file.strip_suffix(".sql").unwrap();
            let head = format!("CREATE OR REPLACE FUNCTION \"{{schema}}\".{name}(");
            assert_eq!(sql.matches(&head).count(), 1, "{file}");
            assert_eq!(sql.matches("CREATE OR REPLACE FUNCTION").count(), 1, "{file}");
        }
    }
}
