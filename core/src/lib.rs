//! How data moves between a host and its devices, as values: programs, machines, traces, spans and operators.
#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]
