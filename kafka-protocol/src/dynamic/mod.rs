//! Messages as data: decoded, changed and encoded along a [`MessageSchema`], without generated code.
//!
//! For tools that handle any message, and for schemas that are not known at compile time. It is a second
//! implementation of the protocol, which the generated one is tested against; that one is much faster.
//!
//! ```
//! # #[cfg(feature = "share")] {
//! use kafka_protocol::dynamic::{self, Struct, Value};
//! use kafka_protocol::messages::ShareFetchRequest;
//! use kafka_protocol::protocol::Message;
//!
//! let schema = ShareFetchRequest::SCHEMA;
//! let mut request = Struct::new(schema.root);
//! request.set("group_id", "workers")?;
//! request.set("IsRenewAck", true)?; // as Kafka spells it
//! let body = dynamic::encode(&request, schema, 2)?;
//!
//! let request = dynamic::decode(schema, &body.into(), 2)?;
//! assert_eq!(request.get("groupId"), Some(&Value::from("workers"))); // as in JSON
//! assert_eq!(request.get("max_bytes"), Some(&Value::Int(i32::MAX.into())));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decode;
mod default;
mod encode;
mod path;
mod structure;
mod value;

#[cfg(feature = "inspect")]
pub(crate) use decode::fixed;
pub use decode::{decode, decode_prefix, decode_within};
pub use default::default_value;
pub(crate) use default::{is_default, is_droppable};
pub use encode::encode;
#[cfg(feature = "json")]
pub(crate) use encode::wrong_type;
pub use path::SetError;
#[cfg(feature = "json")]
pub(crate) use path::json_name;
pub use structure::Struct;
pub use value::Value;

#[cfg(doc)]
use crate::protocol::MessageSchema;
