//! What an operator can do about an error of etcd.

/// The error, which is no more than a text, and what to do about it.
pub(super) fn explain(error: &str, has_user: bool) -> String {
    let remedy = if error.contains("permission denied") {
        "the role of etcd.user has to read and write the keys below /leafd/NAME/"
    } else if error.contains("user name is empty") {
        "it wants a user: set etcd.user and its password"
    } else if error.contains("authentication failed") || error.contains("auth token") && has_user {
        "see etcd.user and its password"
    } else if error.contains("database space exceeded") {
        "compact and defragment it, then disarm its alarm"
    } else {
        return error.to_owned();
    };
    format!("{error}; {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_an_operator_can_mend_says_how() {
        for (error, remedy) in [
            ("etcdserver: permission denied", "below /leafd/NAME/"),
            ("etcdserver: user name is empty", "set etcd.user"),
            ("etcdserver: authentication failed, invalid user ID or password", "see etcd.user"),
            ("etcdserver: mvcc: database space exceeded", "disarm"),
        ] {
            let text = explain(error, true);
            assert!(text.starts_with(error) && text.contains(remedy), "{text}");
        }
        assert_eq!(explain("etcdserver: no leader", true), "etcdserver: no leader");
    }
}
