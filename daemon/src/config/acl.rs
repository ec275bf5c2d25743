//! `zookeeper.acl`: who may do what with the nodes that leafd creates.

use zookeeper_client::{Acl, Acls, AuthId, Permission};

/// Parses `anyone`, `creator`, `creator-write`, or `SCHEME:ID:RIGHTS,…`.
///
/// # Errors
/// Describes what is wrong.
pub(crate) fn parse(text: &str) -> Result<Vec<Acl>, String> {
    match text {
        "anyone" => return Ok(Acls::anyone_all().to_vec()),
        "creator" => return Ok(Acls::creator_all().to_vec()),
        "creator-write" => {
            return Ok([Acls::creator_all().to_vec(), Acls::anyone_read().to_vec()].concat());
        }
        _ => {}
    }
    text.split(',').map(|entry| one(entry).ok_or_else(|| wrong(text, entry))).collect()
}

fn wrong(text: &str, entry: &str) -> String {
    let shown = match () {
        // The hash, or the password that somebody took for it.
        () if text.contains("digest:") => "an entry".to_owned(),
        () if text == entry => format!("{text:?}"),
        () => format!("{text:?}: {entry:?}"),
    };
    format!(
        "{shown} is neither anyone, creator, creator-write nor SCHEME:ID:RIGHTS with rights among \
         cdrwa"
    )
}

fn one(entry: &str) -> Option<Acl> {
    let (scheme, rest) = entry.split_once(':')?;
    let (id, rights) = rest.rsplit_once(':')?;
    if scheme.is_empty() || rights.is_empty() {
        return None;
    }
    let rights = rights.chars().try_fold(Permission::NONE, |all, right| {
        Some(
            all | match right {
                'c' => Permission::CREATE,
                'd' => Permission::DELETE,
                'r' => Permission::READ,
                'w' => Permission::WRITE,
                'a' => Permission::ADMIN,
                _ => return None,
            },
        )
    })?;
    Some(Acl::new(rights, AuthId::new(scheme, id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_and_lists_are_parsed() {
        assert_eq!(parse("anyone").unwrap(), [Acl::new(Permission::ALL, AuthId::anyone())]);
        assert_eq!(parse("creator").unwrap(), [Acl::new(Permission::ALL, AuthId::authed())]);
        assert_eq!(parse("creator-write").unwrap().len(), 2);
        let list = parse("digest:leaf:aGFzaA==:cdrwa,ip:10.0.0.0/8:r").unwrap();
        assert_eq!(list[0], Acl::new(Permission::ALL, AuthId::new("digest", "leaf:aGFzaA==")));
        assert_eq!(list[1], Acl::new(Permission::READ, AuthId::new("ip", "10.0.0.0/8")));
    }

    #[test]
    fn an_error_quotes_anything_else() {
        for text in [
            "",
            "nobody",
            "world:anyone",
            "world:anyone:x",
            "world:anyone:",
            ":a:r",
            "anyone,creator",
        ] {
            assert!(parse(text).unwrap_err().contains(text));
        }
        let error = parse("digest:leaf:hunter2:rwx").unwrap_err();
        assert!(error.starts_with("an entry is neither") && !error.contains("hunter2"), "{error}");
    }
}
