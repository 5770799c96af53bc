//! Clocks that measure, and what the system says of processes.

use std::fs;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

/// Reads the monotonic clock, in nanoseconds. All processes of a machine share it.
pub(super) fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Reads the processor time of this process, in nanoseconds.
pub(super) fn own_cpu_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

/// Makes seconds of nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "a run has far fewer nanoseconds than a double has digits")]
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / NS_PER_S as f64
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * NS_PER_S + part(time.tv_nsec)
}

/// Reads the peak of this process's resident memory. `None` where the system does not tell.
pub(super) fn own_peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The processor time of a PostgreSQL server that runs on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerCpu {
    postmaster: u32,
}

impl ServerCpu {
    /// Finds the server that `backend` belongs to, if it is a process of this machine: its command line then names
    /// the client's port.
    pub(super) fn find(backend: i32, client_port: i32) -> Option<Self> {
        let backend = u32::try_from(backend).ok()?;
        let line = fs::read(format!("/proc/{backend}/cmdline")).ok()?;
        if !String::from_utf8_lossy(&line).contains(&format!("({client_port})")) {
            return None;
        }
        Some(Self { postmaster: Process::read(&backend.to_string())?.parent })
    }

    /// Reads the seconds that the server and all of its processes have used so far, those that have ended included.
    pub(super) fn read(self) -> Option<f64> {
        let mut postmaster = Process::read(&self.postmaster.to_string())?;
        loop {
            let alive = self.ticks_of_the_living()?;
            let again = Process::read(&self.postmaster.to_string())?;
            // A process that ended meanwhile may be missing in both.
            if again.ticks_of_ended == postmaster.ticks_of_ended {
                #[expect(clippy::cast_precision_loss, reason = "ticks are few")]
                let ticks = (alive + again.ticks + again.ticks_of_ended) as f64;
                #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
                return Some(ticks / rustix::param::clock_ticks_per_second() as f64);
            }
            postmaster = again;
        }
    }

    fn ticks_of_the_living(self) -> Option<u64> {
        let mut ticks = 0;
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            else {
                continue;
            };
            if let Some(process) = Process::read(name).filter(|process| process.parent == self.postmaster) {
                ticks += process.ticks;
            }
        }
        Some(ticks)
    }
}

/// The processor time of one process of a server on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackendCpu {
    pid: u32,
}

/// How often a backend is looked at until it sleeps.
const LOOKS: u32 = 1_000;

impl BackendCpu {
    /// Names a process of the server. It must be known that the server runs on this machine.
    pub(super) fn of(backend: i32) -> Option<Self> {
        Some(Self { pid: u32::try_from(backend).ok()? })
    }

    /// Reads the nanoseconds that it has run. It has just answered: it is given a moment to fall asleep, since the
    /// system counts a stretch of running at its end.
    pub(super) fn read(self) -> Option<u64> {
        let pid = self.pid.to_string();
        for _ in 0..LOOKS {
            if Process::read(&pid)?.sleeps {
                break;
            }
            std::thread::yield_now();
        }
        let schedstat = fs::read_to_string(Path::new("/proc").join(pid).join("schedstat")).ok()?;
        schedstat.split(' ').next()?.parse().ok()
    }
}

struct Process {
    sleeps: bool,
    parent: u32,
    /// User and system time.
    ticks: u64,
    /// The same of its children that have ended.
    ticks_of_ended: u64,
}

impl Process {
    fn read(pid: &str) -> Option<Self> {
        let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).ok()?;
        // The name of the program, in parentheses, may hold anything.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            sleeps: fields.first() == Some(&"S"),
            parent: fields.get(1)?.parse().ok()?,
            ticks: number(11)? + number(12)?,
            ticks_of_ended: number(13)? + number(14)?,
        })
    }
}
