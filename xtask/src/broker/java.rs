//! Java, and the jars that Maven fetches.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Error, Result, anyhow, ensure};

use crate::root;

/// The oldest Java that a Kafka 4 broker runs on.
const JAVA: u32 = 17;

/// A `java` command with this class path.
pub(super) fn java(class_path: &str) -> Command {
    let mut command = Command::new(tool("java"));
    // Not as an argument: it is some thousand characters long, and whoever lists processes would see nothing else.
    command.env("CLASSPATH", class_path);
    command
}

/// The class path of a broker and of Kafka's clients, of a version or of that in `pom.xml`. Maven is asked only the first
/// time, when `pom.xml` has changed, or when a jar is gone.
pub(crate) fn class_path(kafka: Option<&str>) -> Result<String> {
    check_java()?;
    let pom = root().join("tests/broker/pom.xml");
    let folder = root().join("target/broker");
    let known = folder.join(kafka.map_or("class-path".into(), |version| format!("class-path-{version}")));
    if !is_newer(&known, &pom) || !fs::read_to_string(&known)?.split(':').all(|jar| Path::new(jar).exists()) {
        fs::create_dir_all(&folder)?;
        // In two steps, so that nobody reads half a file.
        let new = folder.join(format!("class-path.{}", std::process::id()));
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "--file"]).arg(&pom);
        maven.args(kafka.map(|version| format!("-Dkafka.version={version}")));
        maven.arg("dependency:build-classpath").arg(format!("-Dmdep.outputFile={}", new.display()));
        maven.arg("-Dmdep.pathSeparator=:");
        let what = "Maven (`mvn`), which fetches the jars of Kafka from Maven Central";
        let output = maven.output().map_err(|error| missing(what, error))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let said: Vec<_> = said.lines().filter(|line| line.contains("ERROR")).take(3).collect();
        ensure!(output.status.success(), "Maven cannot fetch the jars of Kafka: {}", said.join("\n"));
        fs::rename(&new, &known)?;
    }
    fs::read_to_string(&known).with_context(|| format!("cannot read {}", known.display()))
}

/// That there is a Java, and that it is not too old.
fn check_java() -> Result<()> {
    let what = "Java, which Kafka's broker runs on";
    let output =
        Command::new(tool("java")).arg("--version").output().map_err(|error| missing(what, error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let said = said.lines().next().unwrap_or("nothing, as a Java before 9 does");
    let major =
        said.split(' ').nth(1).and_then(|version| version.split(['.', '-', '+']).next()?.parse().ok());
    ensure!(
        major.is_some_and(|major: u32| major >= JAVA),
        "Java {JAVA} or later is needed, `java --version` says: {said}"
    );
    Ok(())
}

/// A program of the Java that `JAVA_HOME` names, if it does.
pub(crate) fn tool(name: &str) -> OsString {
    let home = env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
    home.map_or_else(|| name.into(), |home| Path::new(&home).join("bin").join(name).into_os_string())
}

fn missing(what: &str, error: std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => anyhow!("{what}, is not installed, or not on the PATH"),
        _ => Error::new(error).context(format!("{what}, does not start")),
    }
}

fn is_newer(file: &Path, than: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    time(file).is_some_and(|modified| Some(modified) >= time(than))
}
