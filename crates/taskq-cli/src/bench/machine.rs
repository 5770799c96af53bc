//! What the benchmark ran on.

use std::fs;

use serde::Serialize;

/// The machine and the program.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    cpu: Option<String>,
    cores: usize,
    memory_bytes: Option<u64>,
    os: String,
    /// How busy the machine was before the benchmark began: the mean number of runnable processes of a minute.
    load_before: Option<f64>,
    taskq: &'static str,
    build: &'static str,
}

impl Machine {
    /// Looks at the machine. What the system does not tell stays open.
    pub(super) fn look() -> Self {
        let read = |path| fs::read_to_string(path).ok();
        let kernel = read("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cpu: read("/proc/cpuinfo").and_then(|text| value_of(&text, "model name")),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: read("/proc/meminfo").and_then(|text| kibibytes(&text, "MemTotal")),
            os: format!("{} {} {}", std::env::consts::OS, kernel.trim(), std::env::consts::ARCH),
            load_before: read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
            taskq: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }

    /// Says it in one line.
    pub(super) fn line(&self) -> String {
        let memory = self.memory_bytes.map_or_else(String::new, |bytes| format!(", {} GiB", bytes >> 30));
        let load = self.load_before.map_or_else(String::new, |load| format!(", load {load:.1} before"));
        let cpu = self.cpu.as_deref().unwrap_or("unknown processor");
        format!("{} x {cpu}{memory}, {}{load}, {} build", self.cores, self.os, self.build)
    }
}

fn value_of(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    value_of(text, name)?.strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}
