//! How much memory this process holds, as the system tells it.

/// Resident memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// In bytes.
    pub bytes: u64,
}

impl Memory {
    /// What is held now; `None` where the system does not say.
    #[must_use]
    pub fn now() -> Option<Self> {
        Self::of("VmRSS:")
    }

    /// The most that was ever held.
    #[must_use]
    pub fn highest() -> Option<Self> {
        Self::of("VmHWM:")
    }

    fn of(name: &str) -> Option<Self> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(Self { bytes: kibibytes * 1024 })
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} MiB", self.bytes as f64 / (1024.0 * 1024.0))
    }
}
