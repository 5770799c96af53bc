//! Connections: how they fail, and how they come back.
