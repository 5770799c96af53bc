//! Encryption, with the meaning that libpq gives to each mode.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use taskq_core::store::StoreError;
use tokio_postgres_rustls::MakeRustlsConnect;

/// When a connection is encrypted, and what the server has to prove.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SslMode {
    /// Never.
    Disable,
    /// If the server does not let plain connections in.
    Allow,
    /// If the server can.
    Prefer,
    /// Always; whoever it is.
    Require,
    /// Always, and a root that is trusted vouches for it.
    VerifyCa,
    /// The same, and its certificate has the name that the DSN gives.
    VerifyFull,
}

impl SslMode {
    /// Reads libpq's word.
    pub(crate) fn from_word(word: &str) -> Result<Self, String> {
        match word {
            "disable" => Ok(Self::Disable),
            "allow" => Ok(Self::Allow),
            "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" => Ok(Self::VerifyCa),
            "verify-full" => Ok(Self::VerifyFull),
            _ => Err("it is none of disable, allow, prefer, require, verify-ca, verify-full".to_owned()),
        }
    }
}

/// Who vouches for a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    /// Nobody has to.
    Anybody,
    /// The roots in a file.
    File(PathBuf),
    /// The roots of the operating system.
    System,
}

/// Which versions of the protocol may be spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocols {
    Two,
    Three,
    Both,
}

/// How connections are encrypted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tls {
    pub(crate) mode: SslMode,
    pub(crate) trust: Trust,
    /// The files of this side's certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    pub(crate) protocols: Protocols,
    /// Whether the server is told by which name it was called.
    pub(crate) sends_name: bool,
    /// Whether encryption begins at once, without asking whether the server can.
    pub(crate) is_direct: bool,
}

impl Tls {
    /// Reads the files, and makes what opens encrypted connections. Read anew for each connection: certificates are renewed.
    ///
    /// # Errors
    /// [`StoreError::Refused`] names the option and the file that cannot be used.
    pub(crate) fn connector(&self) -> Result<MakeRustlsConnect, StoreError> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier {
            roots: self.roots()?,
            checks_name: self.mode == SslMode::VerifyFull,
            provider: Arc::clone(&provider),
        };
        let versions: &[_] = match self.protocols {
            Protocols::Two => &[&TLS12],
            Protocols::Three => &[&TLS13],
            Protocols::Both => &[&TLS13, &TLS12],
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .map_err(|error| refused(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &self.identity {
            Some((certificate, key)) => {
                let chain = certificates("sslcert", certificate)?;
                builder
                    .with_client_auth_cert(chain, private_key(key)?)
                    .map_err(|error| of_file("sslcert", certificate, &error))?
            }
            None => builder.with_no_client_auth(),
        };
        config.enable_sni = self.sends_name;
        if self.is_direct {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(MakeRustlsConnect::new(config))
    }

    fn roots(&self) -> Result<Option<RootCertStore>, StoreError> {
        let mut roots = RootCertStore::empty();
        match &self.trust {
            Trust::Anybody => return Ok(None),
            Trust::File(path) => {
                if !path.exists() {
                    return Err(refused(format!(
                        "sslrootcert: there is no file {}: name the root certificate, or take sslrootcert=system",
                        path.display()
                    )));
                }
                for certificate in certificates("sslrootcert", path)? {
                    roots.add(certificate).map_err(|error| of_file("sslrootcert", path, &error))?;
                }
            }
            Trust::System => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let reason = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
                    return Err(refused(format!("sslrootcert: the system has no root certificates{reason}")));
                }
            }
        }
        Ok(Some(roots))
    }
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| of_file(option, path, &error))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|error| of_file(option, path, &error))?;
    if found.is_empty() {
        return Err(of_file(option, path, &"it holds no certificate"));
    }
    Ok(found)
}

/// Reads a private key, which nobody else may read; root may own it and share it with a group.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, StoreError> {
    let refuse = |problem: &dyn Display| of_file("sslkey", path, problem);
    let metadata = fs::metadata(path).map_err(|error| refuse(&error))?;
    if !metadata.is_file() {
        return Err(refuse(&"it is no file"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let shared = if metadata.uid() == 0 { 0o037 } else { 0o077 };
        if metadata.mode() & shared != 0 {
            return Err(refuse(&"others have access to it: chmod 0600, or 0640 if root owns it"));
        }
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| refuse(&error))
}

fn of_file(option: &str, path: &Path, problem: &dyn Display) -> StoreError {
    refused(format!("{option}: {}: {problem}", path.display()))
}

fn refused(message: String) -> StoreError {
    StoreError::Refused { message }
}

/// Checks what a server shows, as far as the mode asks for it.
#[derive(Debug)]
struct Verifier {
    /// `None` when nobody has to vouch.
    roots: Option<RootCertStore>,
    checks_name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(end_entity)?;
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
            if self.checks_name {
                verify_server_name(&certificate, server_name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
