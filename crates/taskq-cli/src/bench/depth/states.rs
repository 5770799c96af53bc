//! The states of table and planner in which a claim must cost the same.

use super::fill::{Beside, Content, Mode};
use crate::cli::StateArg;

/// What a state is named in the report, what the table holds, and what the planner believes of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct State {
    pub(super) name: &'static str,
    pub(super) content: Content,
    pub(super) statistics: Statistics,
    pub(super) plans: Plans,
    pub(super) settings: &'static [&'static str],
    /// The state that it is compared with at the same depth, by what it is called in fields and by its name.
    pub(super) against: Option<(&'static str, &'static str)>,
}

/// The planner's statistics of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Statistics {
    /// None were ever taken.
    Absent,
    /// They were taken when the table was empty.
    OfEmpty,
    /// They were taken of what is there.
    Fresh,
}

/// When a session made its plans.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plans {
    /// With the table as it is.
    AsItIs,
    /// When it held a handful of rows.
    WhenSmall,
}

/// Lists the states that are asked for, in groups that are measured in turn and share their tables.
pub(super) fn groups(mode: Mode, asked: &[StateArg]) -> Vec<Vec<State>> {
    let cohorts = match mode {
        Mode::StrictFifo => 0,
        Mode::RoundRobin => 10,
    };
    let plain = Content { actors: 8, cohorts, beside: None };
    let state = |name, content| State {
        name,
        content,
        statistics: Statistics::Fresh,
        plans: Plans::AsItIs,
        settings: &[],
        against: None,
    };
    let set = |name, settings| State { settings, ..state(name, plain) };
    let next_to = |name, beside| vec![state(name, Content { beside: Some(beside), ..plain })];

    let mut groups = vec![
        vec![
            State { statistics: Statistics::Absent, ..state("never_analyzed", plain) },
            State {
                statistics: Statistics::Absent,
                plans: Plans::WhenSmall,
                ..state("planned_empty", plain)
            },
            state("analyzed", plain),
            set("generic_plans", &["plan_cache_mode = force_generic_plan"]),
            set("jit_on", &["jit = on", "jit_above_cost = 0"]),
            set("jit_off", &["jit = off"]),
        ],
        vec![State { statistics: Statistics::OfEmpty, ..state("analyzed_empty", plain) }],
        next_to("scheduled", Beside::Scheduled),
        next_to("finished", Beside::Finished),
        next_to("running", Beside::Running),
        next_to("other_actors", Beside::OtherActors),
        next_to("retried", Beside::Retried),
        vec![
            state("actors: 8", plain),
            State {
                against: Some(("8_actors", "actors: 8")),
                ..state("actors: 48", Content { actors: 48, ..plain })
            },
        ],
    ];
    if mode == Mode::RoundRobin {
        groups.push(vec![
            state("cohorts: 10", plain),
            State {
                against: Some(("10_cohorts", "cohorts: 10")),
                ..state("cohorts: 10000", Content { cohorts: 10_000, ..plain })
            },
        ]);
    }
    for group in &mut groups {
        group.retain(|state| asked.iter().any(|asked| covers(*asked, state.name)));
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// Lists what the tables of a group hold.
pub(super) fn contents(group: &[State]) -> Vec<Content> {
    let mut contents: Vec<Content> = Vec::new();
    for state in group {
        if !contents.contains(&state.content) {
            contents.push(state.content);
        }
    }
    contents
}

fn covers(asked: StateArg, name: &str) -> bool {
    let word = match asked {
        StateArg::All => return true,
        StateArg::NeverAnalyzed => "never_analyzed",
        StateArg::PlannedEmpty => "planned_empty",
        StateArg::AnalyzedEmpty => "analyzed_empty",
        StateArg::Analyzed => "analyzed",
        StateArg::GenericPlans => "generic_plans",
        StateArg::JitOn => "jit_on",
        StateArg::JitOff => "jit_off",
        StateArg::Scheduled => "scheduled",
        StateArg::Finished => "finished",
        StateArg::Running => "running",
        StateArg::OtherActors => "other_actors",
        StateArg::Retried => "retried",
        StateArg::Actors => "actors",
        StateArg::Cohorts => "cohorts",
    };
    name.split(':').next() == Some(word)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_state_that_can_be_asked_for_exists() {
        for asked in StateArg::value_variants() {
            assert!(!groups(Mode::RoundRobin, &[*asked]).is_empty(), "{asked:?}");
        }
        let names = |mode| groups(mode, &[StateArg::All]).concat().len();
        assert_eq!((names(Mode::StrictFifo), names(Mode::RoundRobin)), (14, 16));
    }
}
