//! The nodes of a cluster: their ports, their properties, and whether they know of each other.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fmt::Write as _, fs, iter};

use anyhow::{Context, Result, ensure};

use crate::root;

/// A port for each broker, and one for the controller.
pub(super) fn ports(brokers: u16, first: Option<u16>) -> Result<Vec<u16>> {
    let listeners: Vec<_> = match first {
        Some(first) => {
            let last = first.checked_add(brokers).context("the ports end at 65535")?;
            let listen = |port| {
                TcpListener::bind(("127.0.0.1", port)).with_context(|| format!("port {port} cannot be used"))
            };
            (first..=last).map(listen).collect::<Result<_>>()?
        }
        // All are held until all are found, so that they differ.
        None => iter::repeat_with(|| TcpListener::bind(("127.0.0.1", 0)))
            .take(usize::from(brokers) + 1)
            .collect::<io::Result<_>>()?,
    };
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

/// Writes a file for each broker. The last port is that of the controller, which the first broker is too.
pub(super) fn write_properties(folder: &Path, ports: &[u16], settings: &[String]) -> Result<Vec<PathBuf>> {
    let common = root().join("tests/broker/broker.properties");
    let common = fs::read_to_string(&common).with_context(|| format!("cannot read {}", common.display()))?;
    let (controller, brokers) = ports.split_last().context("a cluster without a node")?;
    (1..)
        .zip(brokers)
        .map(|(id, port)| {
            let (role, listener) = match id {
                1 => (",controller", format!(",CONTROLLER://127.0.0.1:{controller}")),
                _ => Default::default(),
            };
            let mut text = common.clone();
            writeln!(text, "\nnode.id={id}\nprocess.roles=broker{role}")?;
            writeln!(text, "listeners=BROKER://127.0.0.1:{port}{listener}")?;
            writeln!(text, "controller.quorum.bootstrap.servers=127.0.0.1:{controller}")?;
            writeln!(text, "log.dirs={}", folder.join(format!("node-{id}")).display())?;
            settings.iter().try_for_each(|setting| writeln!(text, "{setting}"))?;
            let file = folder.join(format!("node-{id}.properties"));
            fs::write(&file, text)?;
            Ok(file)
        })
        .collect()
}

/// Waits until a broker says that there are so many brokers, or until its process has ended.
pub(super) fn wait(address: &str, brokers: u16, process: &mut Child, limit: Duration) -> Result<()> {
    let start = Instant::now();
    while known_brokers(address).ok() != Some(brokers.into()) {
        if let Some(status) = process.try_wait()? {
            anyhow::bail!("the cluster does not start: {status}");
        }
        ensure!(start.elapsed() < limit, "{address} does not know of {brokers} brokers within {limit:?}");
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Asks for `Metadata` version 0. By hand, because this program does not depend on what it generates.
fn known_brokers(address: &str) -> io::Result<u32> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    // Size, API key 3, version 0, correlation id 1, no client id, no topics.
    stream.write_all(b"\0\0\0\x0e\0\x03\0\0\0\0\0\x01\xff\xff\0\0\0\0")?;
    // Size, correlation id, how many brokers.
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    let [.., a, b, c, d] = answer;
    Ok(u32::from_be_bytes([a, b, c, d]))
}
