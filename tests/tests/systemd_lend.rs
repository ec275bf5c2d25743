//! A service in a real systemd that borrows its worker ID with `leafctl run`, as the manual says: it keeps its
//! number over restarts, and gets it again at once after it was killed, since its cgroup is empty then.

use leafd_tests::Container;

const CONFIGURATION: &str = "[worker]\nregistry = \"database\"\nidentity = \"here\"\n\
     [database]\npath = \"/var/lib/leafd/registry.db\"\n[peer]\nlisten = \"\"\n";

fn unit(delegate: &str) -> String {
    format!(
        "[Unit]\nWants=leafd.socket\nAfter=leafd.socket\n[Service]\n\
         ExecStart=/usr/bin/leafctl run --worker-env WORKER_ID --worker-file /run/app-worker -- \
         /bin/sh -c 'echo number $WORKER_ID; sleep infinity & exec sleep infinity'\n\
         Restart=always\nRestartSec=100ms\nTimeoutStopSec=60\n{delegate}"
    )
}

/// The numbers that the service has had, in order.
fn numbers(container: &Container) -> Vec<String> {
    let lines = container.ok("journalctl --quiet --output=cat --unit=app.service");
    let numbers = lines.lines().filter_map(|line| line.strip_prefix("number "));
    numbers.map(str::to_owned).collect()
}

fn returned(container: &Container) -> usize {
    let lines = container.ok("journalctl --quiet --output=cat --unit=leafd.service");
    lines.lines().filter(|line| line.contains("a worker ID was returned")).count()
}

#[test]
fn a_service_keeps_its_number_over_restarts_and_kills() {
    let container = Container::with_leafd();
    container.write("/etc/leafd/leafd.toml", CONFIGURATION);
    for delegate in ["Delegate=yes\n", ""] {
        container.write("/etc/systemd/system/app.service", &unit(delegate));
        container.ok("systemctl daemon-reload");
        let (had, back) = (numbers(&container).len(), returned(&container));
        container.ok("systemctl start app.service");
        container.until("it has a number", || numbers(&container).len() == had + 1);
        assert_eq!(container.ok("cat /run/app-worker"), "0\n");
        let owned = container.ok("leafctl worker list --pool default");
        assert!(owned.contains("live, this leafd"), "{owned}");

        container.ok("systemctl restart app.service");
        container.until("it has a number again", || numbers(&container).len() == had + 2);
        assert_eq!(returned(&container), back + 1, "{}", container.journal());
        // The command and what it left behind end before the number is returned, whoever is killed.
        for (round, whom) in ["main", "all", "main"].iter().enumerate() {
            // Once leafctl has told leafd of the cgroup.
            std::thread::sleep(std::time::Duration::from_secs(2));
            container.ok(&format!("systemctl kill --kill-whom={whom} --signal=KILL app.service"));
            container.until("it is up again", || numbers(&container).len() == had + 3 + round);
        }
        container.ok("systemctl stop app.service");
        container.until("the last number is returned", || returned(&container) == back + 2);
        let left = container
            .ok("cat /proc/[0-9]*/comm 2>/dev/null | grep --count --line-regexp sleep || true");
        assert_eq!(left, "0\n", "processes are left");
    }
    let all = numbers(&container);
    assert!(all.iter().all(|number| number == "0"), "{all:?}\n{}", container.journal());
}
