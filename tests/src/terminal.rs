//! A terminal for programs under test: a pseudo-terminal of a given size, and what a person in front
//! of it would see. Tests type keys, resize the window, and read the screen.
//!
//! `setsid --ctty` makes the program the leader of a session that owns the terminal, so that Ctrl-C
//! and a new size reach it as signals, without unsafe code between fork and exec here.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::PATIENCE;

/// Variables that decide how programs write to a terminal. They come from the test alone.
const LOOK: [&str; 7] =
    ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLORTERM", "COLUMNS", "LINES"];

/// A terminal with a screen. Programs run in it one after the other. Dropping it kills the program.
#[derive(Debug)]
pub struct Terminal {
    controller: File,
    path: PathBuf,
    display: Arc<Mutex<Display>>,
    running: Option<Running>,
}

/// What the terminal received.
struct Display {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

impl std::fmt::Debug for Display {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.parser.screen().contents())
    }
}

#[derive(Debug)]
struct Running {
    child: Child,
    reader: JoinHandle<()>,
    // While a descriptor of this side is open, the terminal keeps its modes.
    side: OwnedFd,
    modes: String,
}

/// A program that ended.
#[derive(Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// The screen after its last output.
    pub screen: Vec<String>,
    /// Whether the terminal is as it was: the same modes, the cursor visible, the main screen.
    pub restored: bool,
}

impl Terminal {
    /// Opens a terminal of this size.
    #[must_use]
    pub fn open(columns: u16, rows: u16) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC);
        let controller = controller.expect("a pseudo-terminal");
        grantpt(&controller).expect("a terminal for this user");
        unlockpt(&controller).expect("an unlocked terminal");
        let path = ptsname(&controller, Vec::new()).expect("its name");
        let path = PathBuf::from(path.into_string().expect("a path"));
        let parser = vt100::Parser::new(rows, columns, 0);
        let display = Arc::new(Mutex::new(Display { parser, bytes: Vec::new() }));
        let terminal = Self { controller: controller.into(), path, display, running: None };
        terminal.set_size(columns, rows);
        terminal
    }

    /// Starts a program on this terminal, with the arguments and variables of `command`. `TERM` is
    /// `xterm-256color` unless the command sets it; its own standard streams are not used.
    pub fn run(&mut self, command: &Command) {
        assert!(self.running.is_none(), "a program is still running");
        let side = self.side();
        let modes = modes(&side);
        let mut child = Command::new("setsid");
        // Whoever started the tests may ignore SIGINT, as a shell does for what it runs in the
        // background. Programs inherit that, and Ctrl-C would not end them.
        child.args(["--ctty", "env", "--default-signal"]);
        child.arg(command.get_program()).args(command.get_args());
        child.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8");
        for name in LOOK {
            child.env_remove(name);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => child.env(name, value),
                None => child.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            child.current_dir(folder);
        }
        let stream = || side.try_clone().expect("a descriptor");
        child.stdin(stream()).stdout(stream()).stderr(stream());
        let child = child.spawn().expect("setsid of util-linux");
        let mut controller = self.controller.try_clone().expect("a descriptor");
        let display = Arc::clone(&self.display);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The error EIO: nobody has the other side open any more, and everything was read.
            while let Ok(read @ 1..) = controller.read(&mut buffer) {
                let mut display = lock(&display);
                display.parser.process(&buffer[..read]);
                display.bytes.extend_from_slice(&buffer[..read]);
            }
        });
        self.running = Some(Running { child, reader, side, modes });
    }

    /// Waits until the screen satisfies `predicate`, and returns it.
    pub fn wait_for(&self, what: &str, predicate: impl Fn(&[String]) -> bool) -> Vec<String> {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if predicate(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "no {what} on the screen:\n{}", screen.join("\n"));
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until a line of the screen contains `text`, and returns the screen.
    pub fn wait_for_text(&self, text: &str) -> Vec<String> {
        self.wait_for(text, |screen| screen.iter().any(|line| line.contains(text)))
    }

    /// Types: the program reads `keys`, or gets the signal that they stand for (`\x03` is Ctrl-C).
    pub fn type_keys(&self, keys: &str) {
        (&self.controller).write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Changes the size of the window. The program gets SIGWINCH.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.display().parser.screen_mut().set_size(rows, columns);
        self.set_size(columns, rows);
    }

    /// Sends a signal to the program.
    pub fn send(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it runs");
    }

    /// The process ID of the program.
    #[must_use]
    pub fn pid(&self) -> Pid {
        let running = self.running.as_ref().expect("it runs");
        Pid::from_raw(running.child.id().cast_signed())
    }

    /// Waits until the program has ended and everything that it wrote is on the screen.
    pub fn wait(&mut self) -> Ended {
        let began = Instant::now();
        let status = loop {
            let child = &mut self.running.as_mut().expect("it runs").child;
            if let Some(status) = child.try_wait().expect("wait") {
                break status;
            }
            let late = began.elapsed() > PATIENCE;
            assert!(!late, "the program does not end; the screen:\n{}", self.screen().join("\n"));
            thread::sleep(Duration::from_millis(5));
        };
        let Running { reader, side, modes: before, .. } = self.running.take().expect("it ran");
        let same_modes = modes(&side) == before;
        drop(side);
        reader.join().expect("the reader does not panic");
        let display = self.display();
        let screen = display.parser.screen();
        let restored = same_modes && !screen.hide_cursor() && !screen.alternate_screen();
        drop(display);
        Ended { status, screen: self.screen(), restored }
    }

    /// The lines of the screen, without spaces at their ends. A line that does not fit goes on in
    /// the next one, as on any terminal.
    #[must_use]
    pub fn screen(&self) -> Vec<String> {
        let display = self.display();
        let screen = display.parser.screen();
        let (_, columns) = screen.size();
        screen.rows(0, columns).map(|line| line.trim_end().to_owned()).collect()
    }

    /// A part of each line of the screen: `width` columns from `column` on. A wide character takes
    /// two columns, so this is not a part of the text.
    #[must_use]
    pub fn part(&self, column: u16, width: u16) -> Vec<String> {
        let display = self.display();
        display.parser.screen().rows(column, width).collect()
    }

    /// Whether any line was too long for the window and went on in the next one.
    #[must_use]
    pub fn has_wrapped(&self) -> bool {
        let display = self.display();
        let screen = display.parser.screen();
        (0..screen.size().0).any(|row| screen.row_wrapped(row))
    }

    /// Whether the program is on the alternate screen, as editors and pagers are.
    #[must_use]
    pub fn is_alternate_screen(&self) -> bool {
        self.display().parser.screen().alternate_screen()
    }

    /// Whether a cell of the screen has a colour of its own.
    #[must_use]
    pub fn has_colour(&self) -> bool {
        let display = self.display();
        let screen = display.parser.screen();
        let (rows, columns) = screen.size();
        let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        cells.filter_map(|(row, column)| screen.cell(row, column)).any(|cell| {
            cell.fgcolor() != vt100::Color::Default || cell.bgcolor() != vt100::Color::Default
        })
    }

    /// Everything that the terminal received so far, as it came, with its escape sequences.
    #[must_use]
    pub fn received(&self) -> String {
        String::from_utf8_lossy(&self.display().bytes).into_owned()
    }

    fn display(&self) -> MutexGuard<'_, Display> {
        lock(&self.display)
    }

    fn set_size(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.controller, size).expect("a size");
    }

    /// The side that programs use, opened so that it does not become this process's own terminal.
    fn side(&self) -> OwnedFd {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = nix::fcntl::OFlag::O_NOCTTY.bits();
        let side = File::options().read(true).write(true).custom_flags(flags).open(&self.path);
        side.expect("the terminal").into()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            // It may have ended by itself.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

fn lock(display: &Mutex<Display>) -> MutexGuard<'_, Display> {
    display.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The modes of a terminal, to compare.
fn modes(side: &OwnedFd) -> String {
    let modes = tcgetattr(side).expect("the modes");
    format!(
        "{:?} {:?} {:?} {:?}",
        modes.input_modes, modes.output_modes, modes.control_modes, modes.local_modes
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_sees_a_terminal_of_the_given_size_and_of_the_new_one() {
        let mut terminal = Terminal::open(80, 24);
        terminal.run(&shell(
            "trap 'stty size; exit 3' WINCH; test -t 0 && test -t 1 && stty size; \
             while :; do sleep 0.05; done",
        ));
        terminal.wait_for_text("24 80");
        terminal.resize(200, 50);
        terminal.wait_for_text("50 200");
        let ended = terminal.wait();
        assert_eq!(ended.status.code(), Some(3), "{terminal:?}");
        assert!(ended.restored, "{terminal:?}");
        assert_eq!(ended.screen.len(), 50);
    }

    #[test]
    fn typed_keys_reach_the_program_and_ctrl_c_interrupts_it() {
        let mut terminal = Terminal::open(40, 5);
        terminal.run(&shell("read line; echo \"got $line\"; sleep 1000"));
        terminal.type_keys("a word\n");
        terminal.wait_for_text("got a word");
        terminal.type_keys("\x03");
        assert!(!terminal.wait().status.success());
    }

    #[test]
    fn the_terminal_knows_colours_wrapped_lines_and_modes_that_a_program_left_behind() {
        let mut terminal = Terminal::open(10, 5);
        terminal.run(&shell("echo 0123456789"));
        assert!(terminal.wait().restored && !terminal.has_wrapped() && !terminal.has_colour());
        terminal.run(&shell("printf '\\033[31m0123456789a\\033[0m'; stty -echo"));
        let ended = terminal.wait();
        assert!(!ended.restored && terminal.has_wrapped() && terminal.has_colour());
        assert_eq!(ended.screen[1..3], ["0123456789", "a"]);
        assert!(terminal.received().contains("\x1b[31m"));
        terminal.run(&shell("printf '\\033[?25l\\033[?1049h'"));
        assert!(!terminal.wait().restored && terminal.is_alternate_screen());
    }
}
