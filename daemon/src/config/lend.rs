//! Parses and checks the section of the worker IDs that leafd lends.

use leaf_client::wire::MAX_POOL_CHARS;

use super::problems::{Problem, Problems};
use super::{Config, RegistryKind};

/// A registry counts its worker IDs to 2^31 - 1.
const MAX_BITS: u32 = 31;

/// The longest name of a fleet in a database, in characters.
const MAX_FLEET: usize = 64;

/// A pool of worker IDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolRules {
    pub(crate) name: String,
    pub(crate) bits: u32,
}

/// What the layout of a fleet begins with whose worker IDs are lent; their bits follow. No layout of
/// snowflake IDs begins so.
pub(crate) const LENT: &str = "lent/";

impl PoolRules {
    /// What the borrowers' fleet agrees on, in place of a layout.
    pub(crate) fn layout(&self) -> String {
        format!("{LENT}{}", self.bits)
    }
}

impl Config {
    /// The name of the fleet that a pool has for itself.
    pub(crate) fn fleet_of_pool(fleet: &str, pool: &str) -> String {
        format!("{fleet}-lent-{pool}")
    }

    /// The pools; none with a registry that lends nothing.
    ///
    /// # Errors
    /// When `lend.pools` is not a list of names and bits.
    pub(crate) fn lend_pools(&self) -> Result<Vec<PoolRules>, Problem> {
        let text = &self.lend.pools;
        let problem = |text: String| Problem::new("lend.pools", text);
        let mut pools: Vec<PoolRules> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let pool = pool(part).ok_or_else(|| {
                problem(format!(
                    "{part:?} is not NAME:BITS, such as default:10, with a name of 1 to \
                     {MAX_POOL_CHARS} characters from a to z, 0 to 9 and -, and 1 to {MAX_BITS} bits"
                ))
            })?;
            if pools.iter().any(|known| known.name == pool.name) {
                return Err(problem(format!("names {:?} twice", pool.name)));
            }
            pools.push(pool);
        }
        Ok(pools)
    }

    pub(super) fn check_lend(&self, problems: &mut Problems) {
        let lend = &self.lend;
        problems.range("lend.max-loans", lend.max_loans as u64, 1, 10_000);
        problems.range("lend.max-per-user", lend.max_per_user as u64, 1, 10_000);
        let pools = match self.lend_pools() {
            Ok(pools) => pools,
            Err(problem) => return problems.push(problem),
        };
        if self.worker.registry != RegistryKind::Database {
            return;
        }
        for PoolRules { name, .. } in pools {
            let fleet = Self::fleet_of_pool(&self.database.name, &name);
            if fleet.chars().count() > MAX_FLEET {
                let text = format!(
                    "{name:?} makes {fleet:?}, a name of more than {MAX_FLEET} characters; shorten \
                     it, or database.name"
                );
                problems.push(Problem::new("lend.pools", text).with(&["database.name"]));
            }
        }
    }
}

fn pool(text: &str) -> Option<PoolRules> {
    let (name, bits) = text.split_once(':')?;
    let is_plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let fits = (1..=MAX_POOL_CHARS).contains(&name.len()) && name.bytes().all(is_plain);
    let bits = bits.trim().parse().ok().filter(|bits| (1..=MAX_BITS).contains(bits))?;
    fits.then(|| PoolRules { name: name.to_owned(), bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pools(text: &str) -> Result<Vec<PoolRules>, String> {
        let mut config = Config::default();
        text.clone_into(&mut config.lend.pools);
        config.lend_pools().map_err(|problem| problem.to_string())
    }

    #[test]
    fn pools_are_names_with_bits() {
        let pool = |name: &str, bits| PoolRules { name: name.to_owned(), bits };
        assert_eq!(pools(""), Ok(Vec::new()));
        assert_eq!(pools("default:10"), Ok(vec![pool("default", 10)]));
        assert_eq!(pools("a-1:1, b:31"), Ok(vec![pool("a-1", 1), pool("b", 31)]));
        let long = "a".repeat(33);
        for wrong in
            ["default", "a:0", "a:32", ":5", "A:5", "a b:5", "a:x", "ä:5", &format!("{long}:5")]
        {
            assert!(pools(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
        assert!(pools("a:1,a:2").unwrap_err().contains("twice"));
    }

    #[test]
    fn a_fleet_of_a_pool_has_to_fit_into_the_database() {
        let mut config = Config::default();
        config.worker.registry = RegistryKind::Database;
        config.database.name = "x".repeat(60);
        assert!(config.check().iter().any(|problem| problem.to_string().contains("lend.pools")));
    }
}
