//! The list itself, and the two macros that read it.

use crate::Harness;

/// Hands the list to the macro `$reader`, with `$context` in front of it.
#[doc(hidden)]
#[macro_export]
macro_rules! each_behaviour {
    ([$($reader:tt)+] $context:tt) => {
        $($reader)+! {
            $context
            enqueue {
                a_job_is_stored_as_it_was_given
                a_new_job_has_no_history
                answers_come_in_the_order_of_the_jobs
                no_jobs_are_no_error
                a_time_to_come_makes_a_job_scheduled
                a_time_that_has_passed_is_kept_and_means_at_once
                a_delay_counts_by_the_stores_clock
                a_delay_of_zero_means_at_once
                an_id_that_exists_changes_nothing
                an_id_that_exists_is_answered_with_the_status_of_its_job
                an_id_twice_in_a_call_is_written_once
                one_bad_job_refuses_the_call_and_is_named
                a_bad_job_is_refused_even_if_its_id_exists
                what_is_out_of_bounds_is_refused
                what_is_at_its_bound_is_accepted
                a_deadline_is_measured_against_the_scheduled_time_not_against_now
            }
            claim {
                a_claimed_job_runs
                a_claimed_job_is_not_claimed_again
                the_order_is_priority_then_time_then_id
                every_priority_has_its_place
                a_backdated_job_comes_first
                equals_in_priority_and_time_go_by_id_across_actors
                equals_of_one_call_go_by_id
                a_backlog_of_many_actors_is_handed_out_in_true_order
                a_claim_returns_at_most_its_slots
                any_oversample_yields_full_claims
                each_queue_has_its_own_slots_and_comes_as_asked
                only_registered_actors_are_served
                a_scheduled_job_is_not_claimed_before_it_is_promoted
                workers_get_disjoint_jobs
                workers_that_claim_at_once_get_disjoint_jobs
                an_unknown_worker_has_no_lease_even_when_nothing_is_ready
                an_expired_worker_claims_nothing
                a_released_worker_claims_nothing
                a_queue_that_was_not_registered_is_refused
                a_claim_out_of_bounds_is_refused
                a_claim_renews_a_lease_of_which_less_than_half_is_left
                a_claim_leaves_a_lease_of_which_half_is_left
                an_empty_claim_renews_nothing
                a_job_past_its_deadline_ends_instead_of_starting
                a_deadline_that_passes_between_attempts_keeps_their_count
                jobs_past_their_deadline_do_not_hide_the_others
                a_claim_that_only_ends_late_jobs_renews_nothing
                every_claim_grows_the_epoch
                a_retried_job_is_claimed_in_its_new_place
            }
            settle {
                a_success_stores_its_result
                a_success_without_a_result_stores_none
                a_result_of_null_is_a_result
                a_success_clears_the_error_of_earlier_attempts
                a_final_failure_ends_the_job
                a_cancelled_job_ends_with_the_reason_if_there_is_one
                an_abandoned_job_is_never_tried_again
                what_has_no_error_of_its_own_leaves_the_last_one
                a_snoozed_job_waits_without_burning_an_attempt
                a_snooze_of_zero_makes_the_job_ready
                a_released_job_is_ready_as_it_was
                an_error_is_stored_as_long_as_it_may_be
                another_epoch_is_stale_and_changes_nothing
                another_worker_is_stale_and_changes_nothing
                an_unknown_worker_is_stale
                after_its_lease_a_worker_is_stale_and_changes_nothing
                a_job_that_does_not_run_is_stale
                an_earlier_attempt_is_stale_while_a_later_one_runs
                a_job_that_is_not_there_is_gone
                every_outcome_may_be_repeated
                an_outcome_may_be_repeated_after_the_lease
                an_outcome_may_be_repeated_while_a_later_attempt_runs
                a_second_outcome_of_another_kind_is_stale
                an_attempt_twice_in_a_call_counts_once
                answers_come_in_the_order_of_the_settlements
                many_attempts_settle_in_one_call
                no_settlements_are_no_error
                a_settlement_leaves_the_other_jobs_alone
                one_malformed_settlement_refuses_the_call_and_is_named
            }
            complete {
                a_completed_job_has_succeeded_with_its_result
                a_completion_stores_a_result_if_there_is_one
                a_success_settled_after_its_completion_is_repeated
                another_outcome_settled_after_a_completion_is_stale
                a_completion_may_be_repeated
                a_completion_of_anything_but_the_running_attempt_is_stale
                a_completion_after_the_lease_is_stale_and_changes_nothing
                a_completion_of_a_job_that_is_not_there_is_gone
                a_job_to_be_cancelled_may_still_be_completed
                a_completed_job_is_not_rescued
                a_result_beyond_its_bound_is_refused
            }
            keep {
                what_is_kept_is_told
                a_success_is_deleted_with_its_settlement
                a_success_takes_its_earlier_attempts_along
                every_other_end_is_kept
                a_repeated_success_finds_its_job_gone
                a_success_twice_in_a_call_counts_once
                jobs_that_are_kept_and_others_settle_in_one_call
                many_successes_are_deleted_by_one_call
                what_does_not_hold_its_fence_deletes_nothing
                a_job_to_be_cancelled_is_deleted_if_it_succeeds
                a_completion_deletes_as_well
                the_key_of_a_job_that_is_gone_still_stands
            }
            retry {
                a_failed_attempt_is_tried_again_by_its_policy
                the_delay_grows_up_to_its_cap
                jitter_spreads_the_delay_within_its_bounds
                jitter_never_exceeds_the_cap
                a_job_without_a_policy_has_the_default_one
                a_retry_without_delay_is_ready_at_once
                retry_after_has_its_own_delay_and_burns_no_attempt
                retry_after_zero_is_ready_at_once
                a_spent_budget_ends_the_job
                a_single_attempt_leaves_nothing_to_retry
                what_burns_no_attempt_never_spends_the_budget
                a_final_failure_ignores_attempts_and_delays
                a_retry_behind_the_deadline_is_not_made
                retry_after_the_deadline_is_not_made
                a_retry_after_the_deadline_passed_is_not_made
                an_attempt_may_succeed_after_the_deadline
            }
            workers {
                a_registered_worker_is_listed
                a_registration_out_of_bounds_is_refused
                a_session_needs_a_new_id
                a_name_given_twice_counts_once
                a_beat_renews_the_lease
                a_beat_sets_the_lease_that_it_names
                a_beat_never_revives_a_session
                an_unknown_or_released_worker_cannot_beat
                a_beat_out_of_bounds_is_refused
                progress_is_stored_with_the_running_attempt
                progress_of_several_jobs_comes_in_one_beat
                progress_of_anything_but_the_running_attempt_is_passed_over
                progress_of_an_expired_session_is_refused
                held_lists_what_a_worker_runs_in_the_order_it_started
                held_since_leaves_out_what_started_before
                held_tells_of_expired_sessions_and_of_unknown_ones
                a_released_session_gives_its_jobs_back
                a_released_session_settles_nothing_more
                releasing_a_session_that_is_not_there_is_no_error
                an_expired_session_can_be_released
            }
            leader {
                the_first_to_ask_leads
                the_leader_renews_its_lease
                a_beat_that_does_not_ask_leaves_the_lease_alone
                an_expired_lease_goes_to_the_next_with_a_new_epoch
                a_leader_that_lost_its_lease_comes_back_with_a_new_epoch
                a_released_leader_makes_room_at_once
                releasing_another_worker_leaves_the_leader
                only_the_leader_promotes
                promoting_makes_due_jobs_ready
                promoting_goes_from_the_oldest_and_stops_at_its_limit
                promoting_tells_when_the_next_job_is_due
                jobs_that_wait_again_are_promoted_too
                promoting_out_of_bounds_is_refused
                a_job_past_its_deadline_is_promoted_and_then_ends
            }
            rescue {
                only_the_leader_rescues
                a_sweep_out_of_bounds_is_refused
                a_worker_whose_lease_runs_is_not_lost
                a_lost_worker_can_do_nothing_more
                workers_are_declared_lost_by_id_up_to_the_limit
                nothing_is_taken_from_a_worker_that_was_not_declared_lost
                a_job_whose_first_attempt_was_lost_waits_a_second_at_most
                a_shorter_delay_of_the_policy_counts_at_once
                later_losses_wait_as_the_policy_says
                a_job_that_kills_its_workers_ends_crashed
                the_last_attempt_ends_the_job_when_it_is_lost
                losses_and_failures_share_one_budget
                forgiving_burns_no_attempt
                only_who_was_lost_by_the_outage_is_forgiven
                a_settlement_after_reclaim_is_stale
                what_a_worker_settled_before_it_was_lost_may_be_repeated
                jobs_are_taken_by_worker_and_start_up_to_the_limit
                a_job_that_is_to_be_skipped_is_passed_over
                reclaiming_leaves_everything_else_alone
                a_lost_worker_can_still_be_released
                a_reclaimed_job_still_has_its_deadline
                a_lost_worker_is_forgotten_an_hour_after_its_lease
                only_workers_declared_lost_are_forgotten_up_to_the_limit
                the_probe_says_what_there_is_to_do
                a_leader_before_takes_nothing
            }
            cancel {
                a_job_that_has_not_started_ends_at_once
                a_job_between_attempts_ends_at_once
                the_reason_is_recorded
                a_running_job_runs_on_while_its_worker_is_told
                a_request_is_told_at_every_beat_until_its_attempt_ends
                a_beat_that_leads_is_told_too
                each_worker_is_told_of_its_own_jobs
                a_request_names_the_attempt_that_runs
                who_asks_again_is_answered_alike
                a_job_that_has_ended_is_left_alone
                answers_come_in_the_order_of_the_ids
                too_many_ids_are_refused
                a_job_to_be_cancelled_is_not_tried_again
                a_job_to_be_cancelled_keeps_its_last_error
                what_ends_a_job_anyway_stands
                what_was_settled_after_a_request_may_be_repeated
                a_lost_job_to_be_cancelled_ends_cancelled
                a_released_session_ends_its_jobs_to_be_cancelled
                an_operators_retry_takes_a_request_back
            }
            sweeps {
                a_batch_goes_on_behind_the_one_before
                what_lies_below_a_key_is_seen_from_the_start_only
                the_probe_tells_up_to_where_nothing_lives
                a_batch_out_of_bounds_is_refused
                a_job_fails_when_its_deadline_passes_before_it_starts
                a_job_that_waits_for_another_attempt_has_its_deadline
                a_running_job_is_not_taken_at_its_deadline
                a_worker_is_told_of_attempts_that_take_too_long
                a_result_is_kept_for_its_time_and_its_stamp_for_longer
                expired_keys_are_forgotten
                events_are_kept_for_a_time
                the_size_of_a_batch_of_events_is_a_setting
                settings_out_of_bounds_are_refused
                a_result_that_is_not_kept_does_not_expire
                what_the_leader_writes_down_is_told
                a_new_leader_goes_on_where_the_last_note_says
            }
            archive {
                a_finished_job_is_archived_after_its_hot_period
                an_archived_job_is_what_it_was
                a_list_has_jobs_of_both_sides_in_one_order
                an_archived_job_is_retried_from_there
                an_archived_job_cannot_be_cancelled_or_settled
                retrying_what_matches_leaves_the_archive_alone
                an_id_that_is_archived_is_taken
                the_key_of_an_archived_job_still_stands
                a_result_goes_at_its_time_in_the_archive_too
                a_hot_period_is_a_setting_and_an_actors_own
                a_changed_hot_period_counts_for_jobs_that_have_finished
                a_hot_period_out_of_bounds_is_refused
                a_month_of_the_archive_goes_when_it_is_kept_no_longer
                two_years_go_by
                what_ended_long_ago_is_pruned_on_both_sides
                a_prune_out_of_bounds_is_refused
                who_does_not_lead_archives_nothing
            }
            events {
                at_the_level_all_every_transition_is_told
                unless_set_otherwise_what_is_out_of_the_ordinary_is_told
                at_the_level_off_nothing_is_told
                at_the_level_ends_every_end_is_told_besides
                an_event_says_what_happened_to_which_attempt_and_when
                the_feed_is_read_page_by_page_and_goes_on_where_it_was_left
                the_feed_can_begin_now
                a_page_of_events_out_of_bounds_is_refused
                a_place_that_no_reader_can_have_reached_is_refused
            }
            hooks {
                a_new_hook_begins_now
                a_hook_is_held_by_one_until_its_lease_ends
                a_hook_goes_on_behind_what_was_dealt_with
                what_a_lease_that_nobody_else_took_dealt_with_counts
                a_hook_that_is_given_back_goes_on_at_once
                a_hook_is_refused_where_ends_are_not_told
            }
            operator {
                a_job_of_every_terminal_status_is_tried_again
                a_job_that_ended_before_it_started_is_tried_again
                a_retry_gives_a_fresh_budget_and_keeps_the_history
                a_crashed_job_has_a_fresh_budget_too
                a_job_that_ends_before_its_new_start_keeps_one_record_of_the_old
                a_retried_job_takes_its_place_by_the_time_of_the_retry
                a_job_that_has_not_ended_is_not_retried
                answers_to_a_retry_come_in_the_order_of_the_ids
                too_many_ids_to_retry_are_refused
                what_was_settled_before_a_retry_may_be_repeated
                every_field_of_a_match_narrows
                a_cancellation_by_match_counts_what_it_did
                a_cancellation_by_match_goes_on_batch_by_batch
                a_batch_goes_on_behind_the_id_it_is_given
                a_batch_looks_at_a_bounded_number_of_jobs
                a_batch_may_hold_more_than_a_list_of_ids
                a_retry_by_match_counts_what_it_did
                a_match_that_finds_nothing_is_no_error
                a_batch_out_of_bounds_is_refused
            }
            pause {
                a_paused_queue_hands_out_nothing
                a_paused_actor_is_held_back_in_every_queue
                the_other_queues_of_a_claim_go_on
                every_worker_is_held_back
                pausing_and_resuming_tell_whether_they_changed_something
                a_queue_and_an_actor_of_one_name_are_two
                paused_queues_are_listed_as_such
                paused_actors_are_listed_by_name
                a_claim_from_what_is_paused_is_checked_as_ever
                a_claim_from_what_is_paused_ends_no_late_jobs
                everything_but_the_claim_goes_on_while_paused
            }
            turns {
                a_fairness_key_is_stored
                a_fairness_key_is_refused_where_nobody_takes_turns
                cohorts_take_turns
                lanes_of_all_actors_are_one_ring
                a_turn_may_be_of_an_actor_that_is_not_served
                in_a_lane_the_order_is_priority_then_time_then_id
                a_claim_shares_equally_what_the_lanes_have
                a_heavy_cohort_makes_nobody_wait_more_than_a_turn
                every_cohort_of_many_actors_has_its_turn
                a_claim_without_a_turn_starts_anywhere
                workers_take_disjoint_turns
                each_queue_has_its_own_mode_and_turn
                a_paused_part_has_no_turn
                a_job_past_its_deadline_takes_nobodys_turn
                a_job_that_comes_back_waits_in_its_own_lane
                a_mode_that_is_set_tells_what_it_changed
                jobs_that_were_in_strict_order_are_one_lane
                in_strict_order_again_cohorts_do_not_count
                what_becomes_ready_after_the_change_is_found
                ready_jobs_are_counted_over_their_cohorts
            }
            idempotency {
                a_key_lets_one_job_in
                a_call_with_a_key_may_be_repeated
                the_answer_tells_where_the_keys_job_stands
                keys_are_told_apart_exactly
                each_actor_has_its_own_keys
                a_key_expires_after_seven_days
                a_key_that_expired_is_not_taken_over_but_free
                run_again_replaces_a_job_that_has_ended
                run_again_leaves_a_job_that_has_not_ended
                a_key_that_was_taken_over_lasts_seven_days_more
                run_again_without_a_key_is_refused
                of_one_key_in_a_call_the_first_wins
                of_one_key_in_a_call_one_job_runs_again
                jobs_with_and_without_keys_mix
                a_taken_key_counts_before_an_id
                a_refused_call_takes_no_key
                of_calls_at_once_with_one_key_one_wins
                of_calls_at_once_one_job_runs_again
            }
            queries {
                an_unknown_job_is_none
                jobs_are_listed_newest_first
                filters_narrow_the_list
                each_status_can_be_listed
                the_list_is_read_page_by_page
                a_page_out_of_bounds_is_refused
                endings_tell_how_jobs_stand
                queues_are_summarised
                a_queue_whose_jobs_have_ended_is_not_listed
                workers_are_listed_oldest_first
                every_worker_is_listed_with_its_state
                the_leader_is_named_while_its_lease_runs
                a_queue_counts_live_workers_only
                stats_count_every_status
                stats_name_ready_jobs_that_nobody_serves
                an_expired_worker_serves_nobody
                counts_stop_at_their_bound
                a_backdated_job_has_waited_since_its_time
            }
            wakes {
                a_ready_job_wakes_its_queue
                each_queue_of_a_call_is_woken
                every_subscriber_is_woken
                a_scheduled_job_wakes_the_leader
                a_job_that_waits_again_wakes_the_leader
                a_job_that_is_ready_again_wakes_its_queue
                a_released_session_wakes_the_queues_of_its_jobs
                a_promoted_job_wakes_its_queue
                a_reclaimed_job_wakes_the_leader
                a_forgiven_job_wakes_its_queue
                a_request_to_cancel_wakes_the_worker
                a_cancellation_by_match_wakes_the_workers
                a_job_that_an_operator_retries_wakes_its_queue
                a_resumed_queue_is_woken
                a_queue_whose_mode_changes_is_woken
                a_resumed_actor_wakes_the_queues_of_its_jobs
                a_quiet_enqueue_wakes_nobody
                whoever_enqueued_can_wake_the_others_later
            }
        }
    };
}

/// Turns the list into one `#[tokio::test]` a behaviour, in one module a group.
///
/// The argument names an `async fn()` of the module that calls the macro, which makes a fresh [`Harness`].
/// The calling crate needs `tokio` with its macros.
#[macro_export]
macro_rules! behaviours {
    ($make:ident) => {
        $crate::each_behaviour!([$crate::behaviour_tests][$make]);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! behaviour_tests {
    ([$make:ident] $($group:ident { $($name:ident)* })*) => {
        $($crate::behaviour_tests! { @group $make $group { $($name)* } })*
    };
    (@group $make:ident $group:ident { $($name:ident)* }) => {
        mod $group {
            $(
                #[tokio::test]
                async fn $name() {
                    let harness = super::$make().await;
                    $crate::run(concat!(stringify!($group), "::", stringify!($name)), &harness).await;
                }
            )*
        }
    };
}

/// Runs the behaviours by name, so that one that is written but not listed is dead code to the compiler.
macro_rules! runner {
    ([] $($group:ident { $($name:ident)* })*) => {
        /// Runs the behaviour `group::name` on a fresh harness.
        ///
        /// # Panics
        /// When the store does not behave, and when the list has no such behaviour.
        pub async fn run(behaviour: &str, harness: &dyn Harness) {
            match behaviour {
                $($(
                    concat!(stringify!($group), "::", stringify!($name)) => {
                        Box::pin(crate::$group::$name(crate::scene::Scene::new(harness))).await;
                    }
                )*)*
                other => panic!("the list has no behaviour `{other}`"),
            }
        }
    };
}

crate::each_behaviour!([runner] []);
