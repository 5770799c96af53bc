//! What a claim costs does not depend on what is there. `docs/design/bounds.md` lists the bounds and what takes each away.

mod actors;
mod axis;
mod cliff;
mod cohorts;
mod depth;
mod dispatchers;
mod ground;
mod oracle;
mod plans;
mod rows;
mod traps;
