//! The proxies in front of all servers of one registry.

use super::Proxy;

/// A network between one host and several servers, which fails as a whole.
#[derive(Debug)]
pub struct Proxies(Vec<Proxy>);

impl From<Vec<Proxy>> for Proxies {
    fn from(proxies: Vec<Proxy>) -> Self {
        Self(proxies)
    }
}

impl Proxies {
    /// As [`Proxy::pass`].
    pub fn pass(&self) {
        self.0.iter().for_each(Proxy::pass);
    }

    /// As [`Proxy::hold`].
    pub fn hold(&self) {
        self.0.iter().for_each(Proxy::hold);
    }

    /// As [`Proxy::cut`].
    pub fn cut(&self) {
        self.0.iter().for_each(Proxy::cut);
    }

    /// As [`Proxy::lose`].
    pub fn lose(&self) {
        self.0.iter().for_each(Proxy::lose);
    }

    /// As [`Proxy::lead_to`], for all of them.
    pub fn lead_to(&self, port: u16) {
        self.0.iter().for_each(|proxy| proxy.lead_to(port));
    }

    /// Number of connections ever made, including those that were reset at once.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.0.iter().map(Proxy::accepted).sum()
    }
}
