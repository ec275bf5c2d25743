//! `leafctl doctor` on every registry of worker IDs: whether it answers, and whether the fleet in it has this
//! host's layout.

use leafd_tests::daemon::Home;
use leafd_tests::doctor::{examine, wait_for};
use leafd_tests::registry::{RegistryAccess, RegistryKind};
use leafd_tests::workers::instance;
use leafd_tests::{TestRegistry, on_every_registry};
use tempfile::TempDir;

on_every_registry! {
    a_leafd_that_has_its_worker_id_from_a_registry_has_no_findings,
    another_layout_than_the_fleets_is_bad,
    a_registry_that_hangs_is_bad_before_the_start_and_a_warning_while_leafd_serves,
}

fn home(access: &RegistryAccess) -> (TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    // A slow machine gets time for each call.
    let home = instance(folder.path(), access, "doctor").with(&access.key("TIMEOUT"), "3s");
    (folder, home)
}

fn a_leafd_that_has_its_worker_id_from_a_registry_has_no_findings(kind: &'static dyn RegistryKind) {
    let (_folder, home) = home(&TestRegistry::shared(kind).access());
    let _daemon = home.start();
    wait_for(&home, "snowflake", "ok", "issues snowflake IDs");
    let examined = examine(&home);
    examined.is_healthy();
    assert!(examined.has("registry", "ok", "answers"), "{:#}", examined.report);
}

fn another_layout_than_the_fleets_is_bad(kind: &'static dyn RegistryKind) {
    let (_folder, home) = home(&TestRegistry::shared(kind).access());
    let daemon = home.start();
    wait_for(&home, "snowflake", "ok", "issues snowflake IDs");
    daemon.stop();
    let other = home.with("SNOWFLAKE_LAYOUT", "41/11/11@1288834974657");
    examine(&other).finds("registry", "bad", "another layout");
}

fn a_registry_that_hangs_is_bad_before_the_start_and_a_warning_while_leafd_serves(
    kind: &'static dyn RegistryKind,
) {
    let registry = TestRegistry::alone(kind, 1);
    let (_folder, home) = home(&registry.access());
    let _daemon = home.start();
    wait_for(&home, "snowflake", "ok", "issues snowflake IDs");
    registry.freeze_all();
    wait_for(&home, "registry", "warn", &format!("cannot report to {}", kind.called()));
    let (_elsewhere, other) = self::home(&registry.access());
    examine(&other).finds("registry", "bad", &format!("cannot read {}", kind.called()));
}
