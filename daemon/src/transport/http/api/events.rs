//! The daemon as it goes: a stream of server-sent events, which the page reads. Each has the status and
//! the tags that the caller has searched for; the workers of the fleet come when they change.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use http_body_util::{BodyExt, Either, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use leaf_client::wire::{MAX_TAG_CHARS, MAX_TAGS_PER_PAGE, WireError, WorkerStatus};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{sleep, timeout};

use super::super::answer::HttpAnswer;
use super::super::body::{HttpBody, with_body};
use super::super::problem::HttpProblem;
use super::super::request::HttpRequest;
use super::super::server::HttpServer;
use super::status::StatusDocument;
use super::tags::TagDocument;
use super::workers::WorkerDocument;
use crate::service::viewer::{FoundTag, TagOrder, TagSearch, Viewer};

const EVENT_STREAM: &str = "text/event-stream";

/// Time between two events of a stream, unless gathering them takes longer.
const EVERY: Duration = Duration::from_secs(1);

/// When nothing happens for this long, a comment shows that leafd is there.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// When a caller that got no stream should ask again, in ms.
const AGAIN_MS: u32 = 5000;

/// How deep a page may lie. Whoever looks for a tag beyond searches for its name.
const DEEPEST: usize = 10_000;

/// Tags on a page, unless the caller says so.
const USUAL_LIMIT: usize = 50;

#[derive(Debug, Serialize)]
struct ViewDocument<'a> {
    unix_ms: u64,
    /// The first time that the layout of snowflake IDs cannot hold.
    layout_end_unix_ms: u64,
    offers_snowflakes: bool,
    status: StatusDocument<'a>,
    /// How many tags match the search, on this page or not.
    matching: u64,
    tags: Vec<WatchedTag<'a>>,
    lowest: Option<LowestTag<'a>>,
    failing: u64,
}

/// The tag that runs out first, of all.
#[derive(Debug, Serialize)]
struct LowestTag<'a> {
    tag: &'a str,
    seconds_left: u64,
}

#[derive(Debug, Serialize)]
struct WatchedTag<'a> {
    #[serde(flatten)]
    tag: TagDocument<'a>,
    ids_per_second: f64,
}

#[derive(Debug, Serialize)]
struct FleetDocument<'a> {
    workers: Vec<WorkerDocument<'a>>,
    error: Option<&'a str>,
}

pub(super) fn events(request: &mut HttpRequest<'_>) -> HttpAnswer {
    let search = match search_of(request) {
        Ok(search) => search,
        Err(problem) => return problem.into(),
    };
    let viewer = match request.caller.watch() {
        Ok(viewer) => Arc::new(viewer),
        Err(refused) => return HttpProblem::of(refused).into(),
    };
    let (to, from) = channel(1);
    let server = Arc::clone(request.server);
    let place = server.watchers.place();
    let stream = EventStream { server, viewer, search, to };
    tokio::spawn(stream.run(place));
    response(from).into()
}

/// What the caller searches for.
fn search_of(request: &HttpRequest<'_>) -> Result<TagSearch, HttpProblem> {
    let bad = |text: String| HttpProblem::new(StatusCode::BAD_REQUEST, text);
    let query = request.query(&["search", "sort", "descending", "page", "limit"])?;
    let text = query.text("search").unwrap_or_default().to_lowercase();
    if text.chars().count() > MAX_TAG_CHARS {
        return Err(bad(format!("search is longer than a tag, {MAX_TAG_CHARS} characters")));
    }
    let order = match query.text("sort").unwrap_or("name") {
        "name" => TagOrder::Name,
        "rate" => TagOrder::Rate,
        "seconds-left" => TagOrder::SecondsLeft,
        "issued" => TagOrder::Issued,
        "waiting" => TagOrder::Waiting,
        "failing" => TagOrder::Failing,
        other => {
            let text = "is none of name, rate, seconds-left, issued, waiting, failing";
            return Err(bad(format!("sort {other:?} {text}")));
        }
    };
    let descending = match query.text("descending") {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            return Err(bad(format!("descending {other:?} is neither true nor false")));
        }
    };
    let limit = query.number::<usize>("limit")?.unwrap_or(USUAL_LIMIT);
    if !(1..=MAX_TAGS_PER_PAGE as usize).contains(&limit) {
        return Err(bad(format!("limit {limit} is not between 1 and {MAX_TAGS_PER_PAGE}")));
    }
    let page = query.number::<usize>("page")?.unwrap_or(1);
    let skip = page.checked_sub(1).and_then(|before| before.checked_mul(limit));
    let Some(skip) = skip.filter(|skip| *skip <= DEEPEST) else {
        return Err(bad(format!("page {page} is 0, or begins after {DEEPEST} tags")));
    };
    Ok(TagSearch { text, order, descending, skip, limit })
}

fn response(mut events: Receiver<Bytes>) -> Response<HttpBody> {
    let mut response = with_body(StatusCode::OK, EVENT_STREAM, Bytes::new());
    // nginx would collect the events otherwise.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    response.headers_mut().insert(unbuffered, HeaderValue::from_static("no"));
    let frames = stream::poll_fn(move |cx| {
        events.poll_recv(cx).map(|event| event.map(|event| Ok::<_, Infallible>(Frame::data(event))))
    });
    *response.body_mut() = Either::Right(StreamBody::new(frames).boxed_unsync());
    response
}

struct EventStream {
    server: Arc<HttpServer>,
    viewer: Arc<Viewer>,
    search: TagSearch,
    to: Sender<Bytes>,
}

/// The client has gone.
struct Gone;

impl EventStream {
    /// Sends events until the client goes, leafd stops, or the policy changes: then the caller has to
    /// ask again, and may be refused. Without a `place`, sends the first events only.
    async fn run(self, place: Option<OwnedSemaphorePermit>) {
        let client = self.to.clone();
        tokio::select! {
            () = self.server.stopping.cancelled() => {}
            () = client.closed() => {}
            _ = self.send_all(place) => {}
        }
    }

    async fn send_all(&self, place: Option<OwnedSemaphorePermit>) -> Result<(), Gone> {
        self.send("retry: 3000\n\n".to_owned()).await?;
        let mut edition = 0;
        while self.viewer.may_go_on() {
            self.send_view().await?;
            self.ask_for_fleet();
            if let Some((newest, event)) = self.server.watchers.fleet_after(edition) {
                edition = newest;
                self.send(event.as_ref().to_owned()).await?;
            }
            if place.is_none() {
                let again = format!("{{\"again_ms\":{AGAIN_MS}}}");
                return self.send(event("pause", &again)).await;
            }
            sleep(EVERY).await;
        }
        Ok(())
    }

    async fn send(&self, text: String) -> Result<(), Gone> {
        self.to.send(text.into()).await.map_err(|_| Gone)
    }

    /// Sends how the daemon is now.
    async fn send_view(&self) -> Result<(), Gone> {
        let clock = &self.server.clock;
        let look = async { (self.viewer.tags(&self.search).await, self.viewer.status().await) };
        let mut look = std::pin::pin!(self.server.watchers.in_turn(|| clock.now(), look));
        let (found, status) = loop {
            match timeout(HEARTBEAT, &mut look).await {
                Ok(seen) => break seen,
                Err(_) => self.send(": leafd is there\n\n".to_owned()).await?,
            }
        };
        let worst = &found.worst;
        let lowest = worst.lowest.as_ref();
        let document = ViewDocument {
            unix_ms: self.server.service.environment.unix_ms(),
            layout_end_unix_ms: self.server.snowflakes.layout.end_ms(),
            offers_snowflakes: self.server.snowflakes.offered,
            status: StatusDocument::of(&status),
            matching: found.matching,
            tags: found.tags.iter().map(WatchedTag::of).collect(),
            lowest: lowest.map(|(left, tag)| LowestTag { tag: tag.as_str(), seconds_left: *left }),
            failing: worst.failing,
        };
        self.send(event("view", &json(&document))).await
    }

    /// Has the registry asked for the workers, if it is time to.
    fn ask_for_fleet(&self) {
        if !self.server.watchers.is_to_ask(self.server.clock.now()) {
            return;
        }
        // A task of its own: a registry that hangs must not hold up the tags.
        let (server, viewer) = (Arc::clone(&self.server), Arc::clone(&self.viewer));
        tokio::spawn(async move {
            let event = fleet_event(&viewer.workers().await);
            server.watchers.set_fleet(&event, server.clock.now());
        });
    }
}

impl<'a> WatchedTag<'a> {
    fn of(found: &'a FoundTag) -> Self {
        Self { tag: (&found.status).into(), ids_per_second: found.per_1000_s as f64 / 1000.0 }
    }
}

fn fleet_event(listed: &Result<Vec<WorkerStatus>, WireError>) -> String {
    let document = match listed {
        Ok(workers) => {
            FleetDocument { workers: workers.iter().map(Into::into).collect(), error: None }
        }
        Err(error) => FleetDocument { workers: Vec::new(), error: Some(&error.message) },
    };
    event("workers", &json(&document))
}

/// An event. JSON has no line ends.
fn event(name: &str, json: &str) -> String {
    format!("event: {name}\ndata: {json}\n\n")
}

fn json(document: &impl Serialize) -> String {
    // None of the documents has a map whose keys are not text, which is what fails.
    serde_json::to_string(document).unwrap_or_default()
}
