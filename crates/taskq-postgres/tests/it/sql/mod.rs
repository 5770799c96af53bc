//! The schema's functions as any client calls them.

mod claim;
mod enqueue;
mod fence;
mod isolation;
mod life;
mod mutant;
mod plans;
mod scene;
