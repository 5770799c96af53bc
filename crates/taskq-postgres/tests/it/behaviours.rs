//! The behaviour list.

use crate::database::harness;

taskq_contract::behaviours!(harness);
