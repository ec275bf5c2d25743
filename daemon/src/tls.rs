//! TLS as all connections of leafd have it: rustls, with the certificates that this host trusts unless a file
//! names others. A section of the configuration has the keys `ca-file`, `cert-file` and `key-file` for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::input;

/// Where the certificates are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// The section of the configuration that names them, for errors.
    pub(crate) section: &'static str,
    pub(crate) ca: Option<PathBuf>,
    /// A certificate and its key.
    pub(crate) own: Option<(PathBuf, PathBuf)>,
}

impl TlsFiles {
    /// How connections are encrypted. Reads the files.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub(crate) fn connector(&self) -> Result<TlsConnector, String> {
        Ok(TlsConnector::from(Arc::new(config(self)?)))
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.section)
    }
}

fn config(files: &TlsFiles) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().map_err(|it| it.to_string())?;
    let roots = Arc::new(roots(files)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build();
    let builder = builder.with_webpki_verifier(verifier.map_err(|error| error.to_string())?);
    let Some((certificate, key)) = &files.own else { return Ok(builder.with_no_client_auth()) };
    let (cert_file, key_file) = (files.key("cert-file"), files.key("key-file"));
    let chain = certificates(&cert_file, certificate)?;
    let pem = read(&key_file, key)?;
    let own_key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| format!("{key_file}: {} holds no private key (PEM)", key.display()))?;
    builder.with_client_auth_cert(chain, own_key).map_err(|error| {
        let (certificate, key) = (certificate.display(), key.display());
        format!("{cert_file}: {certificate} and {key} cannot be used together: {error}")
    })
}

fn roots(files: &TlsFiles) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let ca_file = files.key("ca-file");
    if let Some(file) = &files.ca {
        for certificate in certificates(&ca_file, file)? {
            roots
                .add(certificate)
                .map_err(|error| format!("{ca_file}: {}: {error}", file.display()))?;
        }
        return Ok(roots);
    }
    // Some of a host's many certificates may be unusual.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(format!(
            "this host trusts no certificate (/etc/ssl/certs); install ca-certificates, or set {ca_file}"
        ));
    }
    Ok(roots)
}

fn certificates(key: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(key, file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.map_err(|error| format!("{key}: {}: {error}", file.display()))?;
    if found.is_empty() {
        return Err(format!("{key}: {} holds no certificate (PEM)", file.display()));
    }
    Ok(found)
}

fn read(key: &str, file: &Path) -> Result<String, String> {
    input::read_text(file, input::CONFIGURATION)
        .map_err(|error| format!("{key}: cannot read {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_key() {
        let dir = tempfile::tempdir().unwrap();
        let empty = dir.path().join("empty.pem");
        std::fs::write(&empty, "-----BEGIN NOTHING-----\n").unwrap();
        let missing = dir.path().join("missing.pem");
        for (ca, own, told) in [
            (Some(missing.clone()), None, "etcd.ca-file: cannot read"),
            (Some(empty.clone()), None, "etcd.ca-file"),
            (None, Some((missing.clone(), empty.clone())), "etcd.cert-file: cannot read"),
        ] {
            let error = config(&TlsFiles { section: "etcd", ca, own }).unwrap_err();
            assert!(error.contains(told) && error.contains(".pem"), "{error}");
        }
    }
}
