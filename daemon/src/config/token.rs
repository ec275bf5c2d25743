//! Reads the tokens of `http.tokens`: each from a file, or a systemd credential.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::Config;
use super::password::{NoPassword, place, read};
use crate::secret::Secret;

/// The key, for messages.
const KEY: &str = "http.tokens";

/// Characters of a token. A shorter one could be guessed.
const SHORTEST: usize = 32;
const LONGEST: usize = 512;

impl Config {
    /// Every token with the name of its rule. `credentials` is the directory of systemd's credentials.
    ///
    /// # Errors
    /// When a file cannot be read, is readable by others, or holds no token.
    pub(crate) fn http_tokens(
        &self,
        credentials: Option<&Path>,
    ) -> Result<Vec<(Secret, String)>, NoPassword> {
        let tokens = self.http.tokens.iter().map(|entry| {
            let secret = read(KEY, &entry.file, credentials)?;
            let path = place(&entry.file, credentials);
            let wrong = |what: String| NoPassword::Token { key: KEY, path: path.clone(), what };
            let mode = std::fs::metadata(&path).map_or(0, |meta| meta.permissions().mode());
            if mode & 0o007 != 0 {
                return Err(wrong("can be read by others; use chmod o-rwx".to_owned()));
            }
            let text = secret.expose();
            let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
            if !(SHORTEST..=LONGEST).contains(&text.len()) || !is_plain {
                return Err(wrong(format!(
                    "holds no token of {SHORTEST} to {LONGEST} visible ASCII characters; make one \
                     with: openssl rand -hex 32"
                )));
            }
            Ok((secret, entry.rule.clone()))
        });
        let tokens: Vec<(Secret, String)> = tokens.collect::<Result<_, _>>()?;
        for (at, (secret, _)) in tokens.iter().enumerate() {
            if tokens.iter().take(at).any(|(other, _)| other == secret) {
                let path = self.http.tokens.get(at).map(|entry| place(&entry.file, credentials));
                let what = "holds the same token as another file".to_owned();
                return Err(NoPassword::Token { key: KEY, path: path.unwrap_or_default(), what });
            }
        }
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_others_cannot_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        let read = |content: &str, mode: u32, times: usize| {
            std::fs::write(&file, content).unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            let entry = "[[http.tokens]]\nfile = \"token\"\nrule = \"a\"\n".repeat(times);
            let config: Config = toml::from_str(&entry).unwrap();
            let tokens = config.http_tokens(Some(dir.path()));
            tokens.map(|tokens| tokens.len()).map_err(|error| error.to_string())
        };
        let token = "0123456789abcdef".repeat(2);
        assert_eq!(read(&format!("{token}\n"), 0o640, 1), Ok(1));
        for (content, mode, times, told) in [
            (token.clone(), 0o644, 1, "can be read by others"),
            (token.get(1..).unwrap().to_owned(), 0o600, 1, "holds no token of 32"),
            (format!("{token} x"), 0o600, 1, "holds no token"),
            (token.clone(), 0o600, 2, "the same token"),
        ] {
            let error = read(&content, mode, times).unwrap_err();
            assert!(error.contains(told) && error.contains("http.tokens"), "{error}");
            assert!(!error.contains(&token), "{error}");
        }
    }
}
