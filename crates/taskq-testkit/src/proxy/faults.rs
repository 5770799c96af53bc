//! What goes wrong at the moment.

use std::time::Duration;

/// Which way bytes go through a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What clients send.
    ToServer,
    /// What the server sends.
    ToClient,
    /// Both.
    Both,
}

impl Direction {
    fn covers(self, one_way: Direction) -> bool {
        self == Self::Both || self == one_way
    }
}

/// The faults of a proxy, as its connections see them.
#[derive(Clone, Default)]
pub(super) struct Faults {
    /// How often all connections were cut: one that has seen a smaller number is.
    pub(super) cuts: u64,
    pub(super) refusing: bool,
    pub(super) gone: bool,
    to_server: Way,
    to_client: Way,
}

#[derive(Clone, Copy, Default)]
struct Way {
    delay: Duration,
    black_hole: bool,
}

impl Faults {
    pub(super) fn set_delay(&mut self, direction: Direction, delay: Duration) {
        self.change(direction, |way| way.delay = delay);
    }

    pub(super) fn set_black_hole(&mut self, direction: Direction) {
        self.change(direction, |way| way.black_hole = true);
    }

    pub(super) fn heal(&mut self) {
        (self.to_server, self.to_client, self.refusing) = (Way::default(), Way::default(), false);
    }

    pub(super) fn delay(&self, one_way: Direction) -> Duration {
        self.way(one_way).delay
    }

    pub(super) fn black_hole(&self, one_way: Direction) -> bool {
        self.way(one_way).black_hole
    }

    fn way(&self, one_way: Direction) -> Way {
        if one_way == Direction::ToServer { self.to_server } else { self.to_client }
    }

    fn change(&mut self, direction: Direction, change: impl Fn(&mut Way)) {
        if direction.covers(Direction::ToServer) {
            change(&mut self.to_server);
        }
        if direction.covers(Direction::ToClient) {
            change(&mut self.to_client);
        }
    }
}
