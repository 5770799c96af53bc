//! Texts that people write, turned into values: durations, times, payloads, programs.

mod duration;
mod payload;
mod program;
mod time;

pub(crate) use duration::{duration, format_duration, positive_duration};
pub(crate) use payload::payload;
pub(crate) use program::{Command, actor_program, command, from_words};
pub(crate) use time::time;
