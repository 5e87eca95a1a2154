//! Modules and launches.

use super::exports;

exports! {}
