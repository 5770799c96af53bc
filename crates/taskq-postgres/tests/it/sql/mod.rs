//! The schema's functions as any client calls them.

mod claim;
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
mod sweeps;
