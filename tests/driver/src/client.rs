use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use kafka_protocol::connection::{Config, Connection, Negotiation, Received};
use kafka_protocol::messages::ApiVersionsRequest;
use kafka_protocol::protocol::Rpc;
use kafka_protocol::wire::BytesMut;

/// How long a broker may take to accept a connection, and to answer unless [`Client::timeout`] says otherwise.
const TIMEOUT: Duration = Duration::from_secs(30);

/// One connection to a broker, with the versions negotiated.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    pub(crate) connection: Connection,
    unread: BytesMut,
    unsent: Vec<u8>,
}

impl Client {
    /// Connects to `HOST:PORT`.
    ///
    /// # Errors
    ///
    /// Nobody listens there, or whoever does is no Kafka broker.
    pub fn connect(address: &str) -> Result<Self> {
        let config = Config { client_id: Some("driver".into()), ..Default::default() };
        Self::connect_as(address, config)
    }

    /// Connects to `HOST:PORT` with other than the usual settings.
    ///
    /// # Errors
    ///
    /// Those of [`connect`](Self::connect).
    pub fn connect_as(address: &str, config: Config) -> Result<Self> {
        let stream = open(address).with_context(|| format!("cannot connect to {address}"))?;
        let connection = Connection::new(config);
        let mut client = Self { stream, connection, unread: BytesMut::new(), unsent: Vec::new() };
        client.negotiate().with_context(|| format!("{address} tells no versions"))?;
        Ok(client)
    }

    fn negotiate(&mut self) -> Result<()> {
        let request = ApiVersionsRequest {
            client_software_name: "kafka-protocol".into(),
            client_software_version: env!("CARGO_PKG_VERSION").into(),
            ..Default::default()
        };
        loop {
            self.send(&request, None)?;
            let received = self.receive()?;
            if self.connection.negotiate(&received)? == Negotiation::Done {
                return Ok(());
            }
        }
    }

    /// How long the broker may take to answer from now on. Default 30 s.
    ///
    /// # Errors
    ///
    /// Zero.
    pub fn timeout(&self, timeout: Duration) -> Result<()> {
        Ok(self.stream.set_read_timeout(Some(timeout))?)
    }

    /// Sends a request in the highest version that both ends have, and waits for its response.
    ///
    /// # Errors
    ///
    /// The request cannot be sent, or there is no response. [`is_closed`] tells whether the broker has closed the
    /// connection.
    pub fn call<R: Rpc>(&mut self, request: &R) -> Result<R::Response> {
        self.call_in(request, None)
    }

    /// Sends a request in a version, `None` for the highest that both ends have, and waits for its response.
    ///
    /// # Errors
    ///
    /// Those of [`call`](Self::call). While other requests are in flight, their responses are taken off and lost.
    pub fn call_in<R: Rpc>(&mut self, request: &R, version: Option<i16>) -> Result<R::Response> {
        let call = |client: &mut Self| {
            let correlation_id = client.send(request, version)?;
            let received = client.receive()?;
            ensure!(received.correlation_id == correlation_id, "another request was in flight");
            Ok(received.decode()?)
        };
        call(self).with_context(|| R::SCHEMA.name)
    }

    /// Sends a request without waiting, and gives its correlation id. [`receive`](Self::receive) takes the responses, in
    /// the order of the requests.
    ///
    /// # Errors
    ///
    /// The request cannot be sent.
    pub fn send<R: Rpc>(&mut self, request: &R, version: Option<i16>) -> Result<i32> {
        let correlation_id = self.connection.send(request, version, &mut self.unsent)?;
        self.flush()?;
        Ok(correlation_id)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.stream.write_all(&self.unsent);
        self.unsent.clear();
        done
    }

    /// Waits for the next response.
    ///
    /// # Errors
    ///
    /// No request is in flight, or none of its response comes in time.
    pub fn receive(&mut self) -> Result<Received> {
        ensure!(self.connection.in_flight().len() > 0, "no request is in flight");
        loop {
            if let Some(received) = self.connection.receive(&mut self.unread)? {
                return Ok(received);
            }
            read(&mut self.stream, &mut self.unread)?;
        }
    }

    /// What is known of the connection, such as the versions of the broker.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Without the socket's read timeout, for a thread that waits as long as there is a connection.
    pub(crate) fn into_parts(self) -> Result<(TcpStream, Connection)> {
        self.stream.set_read_timeout(None)?;
        Ok((self.stream, self.connection))
    }
}

/// Whether an error means that the broker has closed the connection.
pub fn is_closed(error: &Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    error.downcast_ref::<io::Error>().is_some_and(|error| {
        matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    })
}

/// Appends what has come, at least one byte.
pub(crate) fn read(stream: &mut TcpStream, to: &mut BytesMut) -> io::Result<()> {
    let mut chunk = [0; 16 << 10];
    match stream.read(&mut chunk)? {
        0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the broker has closed the connection")),
        size => {
            to.extend_from_slice(&chunk[..size]);
            Ok(())
        }
    }
}

/// The first of the addresses behind a name that accepts a connection.
fn open(address: &str) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
