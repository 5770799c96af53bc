//! The schema's functions as any client calls them.

mod claim;
mod crash;
mod delay;
mod enqueue;
mod fence;
mod isolation;
mod life;
pub(crate) mod mutant;
mod rescue;
mod rings;
pub(crate) mod scene;
mod turns;
mod work;
