//! Public IDs that leafd makes and reads, for an operator without a key file.

use leaf_client::blocking::Client;
use leaf_client::form::IdForm;
use leaf_client::wire::ErrorCode;
use leafd::cli::leafctl::DaemonArgs;

use crate::connect;
use crate::exit::Failure;

/// Has leafd make and read the public IDs of one tag.
pub(crate) struct PublicByLeafd {
    client: Client,
    /// Empty for snowflake IDs.
    tag: String,
    /// With its underscore, or empty.
    prefix: String,
}

impl PublicByLeafd {
    /// Connects to leafd. `None` for a form that is not a public ID.
    ///
    /// # Errors
    /// Those of connecting.
    pub(crate) fn of(
        form: &IdForm,
        tag: Option<&str>,
        daemon: &DaemonArgs,
    ) -> Result<Option<Self>, Failure> {
        let IdForm::Public { prefix } = form else { return Ok(None) };
        let (tag, prefix) = (tag.unwrap_or_default().to_owned(), prefix.clone());
        Ok(Some(Self { client: connect::patient(daemon)?, tag, prefix }))
    }

    /// Checks that leafd makes public IDs for this user, before any ID is issued.
    ///
    /// # Errors
    /// leafd's refusal, with what to do.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        let made = self.client.public_encode(&self.tag, &[0]);
        made.map(drop).map_err(|error| {
            let lacks_keys =
                matches!(error.code(), Some(ErrorCode::NotConfigured | ErrorCode::UnknownCall));
            let failure = Failure::from(error);
            if !lacks_keys {
                return failure;
            }
            failure.after(
                "--as public needs keys: pass a file with --keys or LEAFD_PUBLIC_KEYS, or let the operator set \
                 leafd's public.key-file;",
            )
        })
    }

    /// # Errors
    /// leafd's refusal.
    pub(crate) fn encode(&mut self, id: u64) -> Result<String, Failure> {
        let made = self.client.public_encode(&self.tag, &[id])?;
        Ok(format!("{}{}", self.prefix, made.concat()))
    }

    /// # Errors
    /// `Usage` when it has another prefix, and leafd's refusal.
    pub(crate) fn decode(&mut self, text: &str) -> Result<u64, Failure> {
        let Some(bare) = text.strip_prefix(self.prefix.as_str()) else {
            let text = format!("{text:?} does not begin with {:?}", self.prefix);
            return Err(Failure::Usage(text));
        };
        let read = self.client.public_decode(&self.tag, &[bare])?;
        let only = read.first().copied();
        only.ok_or_else(|| Failure::Protocol("leafd gave no number".into()))
    }
}
