//! The behaviour list, on a server itself and through a pooler in transaction mode.

mod direct {
    use crate::database::harness;

    taskq_contract::behaviours!(harness);
}

mod pooled {
    use crate::database::pooled_harness;

    taskq_contract::behaviours!(pooled_harness);
}
