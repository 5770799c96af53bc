//! Migrations on a real server.
