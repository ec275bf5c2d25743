//! Properties of the forms, over the whole range of IDs.

mod snowflakes;
mod texts;

use super::FleetId;

fn fleet() -> FleetId {
    "4be1f0a37c".parse().unwrap()
}
