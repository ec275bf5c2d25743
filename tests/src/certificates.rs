//! An authority of a test's own, with a certificate for servers and one for their clients.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder with the files, which outlives no test.
#[derive(Debug, Clone)]
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    /// Makes them in a folder of the test's.
    #[must_use]
    pub fn make(folder: &Path) -> Self {
        let this = Self { folder: folder.to_owned() };
        this.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=authority",
            "-keyout",
            "ca.key",
            "-out",
            "ca.pem",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-addext",
            "keyUsage=critical,keyCertSign",
        ]);
        // The gateway of an etcd member is a client of the member itself, with the same certificate.
        this.sign("member", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth");
        this.sign("client", "extendedKeyUsage=clientAuth");
        this
    }

    fn sign(&self, name: &str, extensions: &str) {
        let [key, request, certificate] =
            ["key", "csr", "pem"].map(|extension| format!("{name}.{extension}"));
        std::fs::write(self.folder.join("extensions"), extensions).expect("a file");
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-subj",
            &format!("/CN={name}"),
            "-keyout",
            &key,
            "-out",
            &request,
        ]);
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "extensions",
            "-out",
            &certificate,
        ]);
    }

    fn openssl(&self, arguments: &[&str]) {
        let mut command = Command::new("openssl");
        let output = command.args(arguments).current_dir(&self.folder).output();
        let output = output.expect("openssl is installed");
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    /// The path of `ca.pem`, `client.pem`, `client.key`, `member.pem` or `member.key`.
    #[must_use]
    pub fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// The content of such a file.
    pub(crate) fn content(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join(name)).expect("a file")
    }
}
