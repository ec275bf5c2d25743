//! Replaces the servers of a manifest's example by those of the tests, and keeps their names.

use serde_json::{Value, json};

use crate::database::Database;

const URL: &str = "mysql://leaf@db.example:3306/leaf?ssl-mode=REQUIRED";
const ZOOKEEPER: &str = "zk-0.zk.example:2181,zk-1.zk.example:2181,zk-2.zk.example:2181";

/// Points leafd to a MariaDB database and a ZooKeeper connect string. On both, the user `leaf` has the
/// password `secret`.
pub fn set(objects: &mut [Value], database: &Database, zookeeper: &str) {
    let url = database.url().replace(":secret@127.0.0.1:", "@db.example:");
    let zookeeper = zookeeper.replace("127.0.0.1:", "zk-0.zk.example:");
    for object in objects {
        if let Some(text) = object.pointer_mut("/data/leafd.toml") {
            let old = text.as_str().expect("a text");
            assert!(old.contains(URL) && old.contains(ZOOKEEPER), "{old}");
            let new = old.replace(URL, &url).replace(ZOOKEEPER, &zookeeper);
            // On loopback only, and on any port, since all pods share this host's ports.
            *text = json!(new + "[peer]\nlisten = \"127.0.0.1:0\"\n");
        }
        if let Some(secrets) = object.get_mut("stringData") {
            *secrets = json!({"store-password": "secret", "zookeeper-auth": "leaf:secret"});
        }
    }
}

/// Lets leafd serve HTTP on any port of loopback, since all pods share this host's ports.
pub fn serve_http_on_any_port(objects: &mut [Value]) {
    let lists = ["/spec/template/spec/initContainers", "/spec/template/spec/containers"];
    let mut changed = 0;
    for object in objects {
        for list in lists {
            let containers = object.pointer_mut(list).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                let variables = container["env"].as_array_mut();
                for variable in variables.into_iter().flatten() {
                    if variable["name"] == "LEAFD_HTTP_LISTEN" {
                        variable["value"] = json!("127.0.0.1:0");
                        changed += 1;
                    }
                }
            }
        }
    }
    assert_eq!(changed, 1, "one container serves HTTP");
}
