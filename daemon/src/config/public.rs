//! `[public]`: the keys by which leafd makes public IDs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use leaf_client::form::public::{KeyFileError, KeyRing};
use serde::Deserialize;

use super::password::{NoPassword, place};
use super::{Config, values};

const KEY: &str = "public.key-file";

/// Name of the credential in the unit: `LoadCredential=public-keys:…`.
const CREDENTIAL: &str = "public-keys";

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub(crate) struct PublicSection {
    #[serde(deserialize_with = "values::path")]
    pub(crate) key_file: Option<PathBuf>,
}

impl Config {
    /// The keys: those of `public.key-file`, or of the systemd credential `public-keys` in `credentials`
    /// (`$CREDENTIALS_DIRECTORY`); none if there is neither.
    ///
    /// # Errors
    /// When the file cannot be read, is open to others, or holds no keys.
    pub(crate) fn public_keys(
        &self,
        credentials: Option<&Path>,
    ) -> Result<Option<KeyRing>, NoPassword> {
        let path = match &self.public.key_file {
            Some(path) => path.as_path(),
            None => {
                // A link that leads nowhere is a mistake.
                let is_there = credentials
                    .is_some_and(|directory| directory.join(CREDENTIAL).symlink_metadata().is_ok());
                if !is_there {
                    return Ok(None);
                }
                Path::new(CREDENTIAL)
            }
        };
        let read = KeyRing::read(&place(path, credentials));
        read.map(Some).map_err(|error| match error {
            KeyFileError::Read { source, .. }
                if path.is_relative() && source.kind() == ErrorKind::NotFound =>
            {
                NoPassword::Credential {
                    key: KEY,
                    name: path.to_owned(),
                    directory: credentials.unwrap_or(Path::new(".")).to_owned(),
                    source,
                }
            }
            error => NoPassword::Keys { key: KEY, source: Box::new(error) },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn read(toml: &str, credentials: Option<&Path>) -> Result<Option<usize>, String> {
        let config: Config = toml::from_str(toml).unwrap();
        let keys = config.public_keys(credentials).map_err(|error| error.to_string())?;
        Ok(keys.map(|keys| keys.key_ids().len()))
    }

    #[test]
    fn keys_come_from_the_file_or_from_systemd_and_an_error_names_the_place_and_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let here = Some(dir.path());
        assert_eq!(read("", here), Ok(None));
        assert_eq!(read("", None), Ok(None));
        let write = |name: &str, text: &str, mode: u32| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            format!("[public]\nkey-file = {path:?}")
        };
        let keys = format!("1 {}1e\n0 {}1e\n", "2f".repeat(31), "91".repeat(31));
        let file = write("file", &keys, 0o400);
        assert_eq!(read(&file, None), Ok(Some(2)));
        write(CREDENTIAL, keys.lines().next().unwrap(), 0o440);
        assert_eq!(read("", here), Ok(Some(1)));
        assert_eq!(read(&file, here), Ok(Some(2)), "the file counts");
        assert_eq!(read("[public]\nkey-file = \"file\"", here), Ok(Some(2)));
        for (toml, told) in [
            (write("open", &keys, 0o644), "chmod g-w,o-rw"),
            (write("short", "1 2f2f\n", 0o400), "line 1"),
            ("[public]\nkey-file = \"/nonexistent/keys\"".into(), "/nonexistent/keys"),
            ("[public]\nkey-file = \"lost\"".into(), "LoadCredential=lost:"),
        ] {
            let error = read(&toml, here).unwrap_err();
            assert!(error.contains(told) && error.contains(KEY), "{error}");
            assert!(!error.contains("2f2f"), "{error}");
        }
    }
}
