//! The schema's functions as any client calls them.

mod archive;
mod claim;
mod complete;
mod cost;
mod crash;
mod delay;
mod enqueue;
mod fence;
mod isolation;
mod life;
pub(crate) mod mutant;
mod rescue;
mod rings;
mod rivals;
pub(crate) mod scene;
mod settle_plans;
mod sweeps;
mod turns;
mod work;
