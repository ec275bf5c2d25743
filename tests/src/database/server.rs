//! A database server: its process and its data.

use std::process::Command;
use std::time::{Duration, Instant};

use super::product::Product;
use super::session::Session;
use super::{Extra, template};
use crate::PATIENCE;
use crate::faketime::FakeTime;
use crate::instance::{Home, Port, Process};
use crate::log::Log;

/// The timeout of one query to a server that is starting.
const PROBE: Duration = Duration::from_secs(5);

/// A server, running or not. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Server {
    product: &'static dyn Product,
    port: Port,
    process: Process,
    arguments: Vec<String>,
    /// Its environment.
    variables: Vec<(String, String)>,
}

impl std::fmt::Debug for dyn Product {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Server {
    /// Starts a new server with extra files and arguments.
    pub(crate) fn start(product: &'static dyn Product, extra: Extra<'_>) -> Self {
        let home = Home::new(product.account());
        template::copy(product, &home);
        for (name, content) in extra.files {
            home.write(name, content);
        }
        let variables = extra.clock.map(FakeTime::variables).unwrap_or_default();
        Self::serve_with(product, home, extra.arguments, variables)
    }

    /// Starts a server on the data in a folder.
    pub(crate) fn serve(product: &'static dyn Product, home: Home, arguments: &[&str]) -> Self {
        Self::serve_with(product, home, arguments, Vec::new())
    }

    fn serve_with(
        product: &'static dyn Product,
        home: Home,
        arguments: &[&str],
        variables: Vec<(String, String)>,
    ) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let process = Process::new(product.name(), home);
        let server = Self { product, port: Port::reserve(), process, arguments, variables };
        if let Err(log) = server.try_start() {
            panic!("{} does not start\n{log}", product.name());
        }
        server
    }

    /// Starts the process and waits until it answers. If it ends instead, fails with its log.
    fn try_start(&self) -> Result<(), Log<'static>> {
        let mut command = self.product.serve(self.home().folder(), self.port());
        command.args(&self.arguments);
        self.process.spawn(with_variables(&self.variables, command));
        let began = Instant::now();
        while !self.is_ready() {
            if self.process.has_ended() {
                return Err(self.log());
            }
            let name = self.product.name();
            assert!(began.elapsed() < PATIENCE, "{name} does not get ready\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Whether this very server answers: no other one has a socket in its folder.
    fn is_ready(&self) -> bool {
        let url = self.superuser_url(self.product.first_database());
        let session = Session::open_within(PROBE, &url);
        let answer = session.and_then(|session| session.query_within(PROBE, "SELECT 1"));
        answer.is_some_and(|answer| answer.is_ok())
    }

    pub(crate) fn product(&self) -> &'static dyn Product {
        self.product
    }

    pub(crate) fn home(&self) -> &Home {
        self.process.home()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn log(&self) -> Log<'static> {
        self.process.log()
    }

    fn superuser_url(&self, database: &str) -> String {
        self.product.superuser_url(self.home().folder(), self.port(), database)
    }

    /// Opens a session as the superuser.
    pub(crate) fn session(&self, database: &str) -> Session {
        let session = Session::open(&self.superuser_url(database));
        let name = self.product.name();
        session.unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.log()))
    }

    pub(crate) fn create_database(&self, name: &str) {
        let mut session = self.session(self.product.first_database());
        session.execute(&self.product.create_database(name));
        let mut session = self.session(name);
        for statement in self.product.prepare_database() {
            session.execute(statement);
        }
    }

    /// Stops every process (SIGSTOP) until `thaw`.
    pub(crate) fn freeze(&self) {
        self.process.freeze();
    }

    /// Resumes every process.
    pub(crate) fn thaw(&self) {
        self.process.thaw();
    }

    /// Kills every process at once, as a power cut would.
    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// Asks the server to end, and waits for it.
    pub(crate) fn stop(&self) {
        self.process.stop(self.product.stop_signal());
    }

    /// Starts it again with the same data and port.
    pub(crate) fn start_again(&self) {
        if let Err(log) = self.try_start() {
            panic!("{} does not start again\n{log}", self.product.name());
        }
    }
}

/// The home gives every program a clean environment, so `env` sets the variables.
fn with_variables(variables: &[(String, String)], command: Command) -> Command {
    if variables.is_empty() {
        return command;
    }
    let mut env = Command::new("env");
    env.args(variables.iter().map(|(name, value)| format!("{name}={value}")));
    env.arg(command.get_program()).args(command.get_args());
    env
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.quit(self.product.quit_signal());
    }
}
