//! The parts of spanlift that need a machine: backends, probe and the `spanlift` command.
