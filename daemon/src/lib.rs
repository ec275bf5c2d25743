//! leafd
