//! Members of consumer groups against a coordinator in memory, and against what Kafka's own consumers sent.

mod app;
mod buffer;
mod chance;
mod classic_group;
mod consumer_group;
mod coordinator;
mod corners;
mod desk;
mod errors;
mod hostile;
mod leader;
mod properties;
mod recorded;
mod watch;
mod wire;
mod world;
