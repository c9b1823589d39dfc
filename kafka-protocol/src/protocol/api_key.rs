use std::fmt;

use super::{HeaderVersions, Versions};
use crate::messages::apis::APIS;

/// The key of an API, as it stands in request headers.
///
/// The associated constants are the APIs of the Kafka release that the schemas are of, those included that it has
/// removed. The type is open: a key without a name survives and can be passed on.
///
/// ```
/// use kafka_protocol::protocol::ApiKey;
///
/// let key = ApiKey(78);
/// assert_eq!(key, ApiKey::SHARE_FETCH);
/// assert_eq!(key.name(), Some("ShareFetch"));
/// let api = key.api().expect("a known API");
/// assert_eq!(api.versions.to_string(), "1-2");
/// assert_eq!(api.request_header.of(2), 2);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKey(
    /// The number on the wire.
    pub i16,
);

impl ApiKey {
    /// What is known of the API; `None` for a key without a name.
    pub fn api(self) -> Option<&'static Api> {
        let index = APIS.binary_search_by_key(&self, |api| api.key).ok()?;
        Some(&APIS[index])
    }

    /// The name of the API, that of its messages without `Request` and `Response`; `None` for an unknown key.
    pub fn name(self) -> Option<&'static str> {
        self.api().map(|api| api.name)
    }

    /// The API of this name, as [`name`](Self::name) gives it.
    pub fn from_name(name: &str) -> Option<Self> {
        APIS.iter().find(|api| api.name == name).map(|api| api.key)
    }

    /// All APIs in ascending order of their keys, removed ones included.
    pub fn all() -> impl DoubleEndedIterator<Item = &'static Api> + ExactSizeIterator {
        APIS.iter()
    }
}

/// The name and the number, such as `ShareFetch(78)`, or `ApiKey(999)` if it has no name.
impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name().unwrap_or("ApiKey"), self.0)
    }
}

/// The name, such as `ShareFetch`, or `unknown API key 999` if it has none.
impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "unknown API key {}", self.0),
        }
    }
}

impl From<i16> for ApiKey {
    fn from(key: i16) -> Self {
        Self(key)
    }
}

impl From<ApiKey> for i16 {
    fn from(key: ApiKey) -> Self {
        key.0
    }
}

/// A request and its response, whether or not their codecs are compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    /// Its key.
    pub key: ApiKey,
    /// Its name: `ShareFetch`.
    pub name: &'static str,
    /// The versions that can be encoded and decoded; none if Kafka has removed the API and only keeps its key.
    pub versions: Versions,
    /// Whether the last version is still being worked on. Such a version works, but brokers offer it only when told to.
    pub latest_version_unstable: bool,
    /// The versions with compact lengths and tag sections. Of a removed API they are not known.
    pub flexible_versions: Versions,
    /// The headers of requests. Of a removed API they are not known.
    pub request_header: HeaderVersions,
    /// The headers of responses. Of a removed API they are not known.
    pub response_header: HeaderVersions,
    /// Who answers.
    pub listeners: &'static [Listener],
}

impl Api {
    /// The versions that are not being worked on any more; none if that leaves none.
    pub const fn stable_versions(&self) -> Versions {
        if self.latest_version_unstable {
            Versions::new(self.versions.min(), self.versions.max() - 1)
        } else {
            self.versions
        }
    }

    /// The version to use unless there is a reason for another one; `None` if there is no stable version.
    pub const fn latest_stable_version(&self) -> Option<i16> {
        let stable = self.stable_versions();
        if stable.is_empty() { None } else { Some(stable.max()) }
    }

    /// Whether Kafka has removed the API and only keeps its key.
    pub const fn is_removed(&self) -> bool {
        self.versions.is_empty()
    }
}

/// Who answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Listener {
    /// A broker that uses ZooKeeper, before Kafka 4.0.
    ZkBroker,
    /// A broker.
    Broker,
    /// A controller.
    Controller,
}
