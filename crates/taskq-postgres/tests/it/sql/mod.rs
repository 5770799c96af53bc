//! The schema's functions as any client calls them.

mod claim;
mod complete;
mod crash;
mod delay;
mod enqueue;
mod fence;
mod isolation;
mod life;
mod mutant;
mod plans;
mod rescue;
mod scene;
