//! A small HTTP/1.1 client that also sends invalid requests.

use crate::api_description;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpSocket;

/// Longest wait for a response.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A request to send, signed or not. Every part can be changed.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    /// The method, which may be any token.
    pub method: String,
    /// The request target: path and query.
    pub target: String,
    /// Headers in the order in which they are sent; a name may occur twice. `host` and `content-length` are added.
    pub headers: Vec<(String, Vec<u8>)>,
    /// What `content-length` counts, sent as it is.
    pub body: Bytes,
}

/// A response that was received completely.
#[derive(Clone, Debug)]
pub struct HttpResponse {
    /// The HTTP status code.
    pub status: u16,
    /// Header names are lower case.
    pub headers: HeaderMap,
    /// Without the framing of HTTP.
    pub body: Bytes,
}

/// No response: the connection failed, or nothing was received in a minute. The text says which.
#[derive(Clone, Debug)]
pub struct HttpError(pub String);

/// A client of one address. Connections are kept alive and used again.
#[derive(Debug)]
pub struct HttpClient {
    address: SocketAddr,
    /// The address that connections come from, unless the system chooses it.
    peer: Option<IpAddr>,
    /// Whether responses are checked against the API description.
    is_api: bool,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl HttpClient {
    /// A client of the API at `address`. Each response is checked against the API description.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, peer: None, is_api: true, idle: Mutex::default() }
    }

    /// A client of another server, such as an operator's port. Responses are not checked.
    pub fn for_other_server(address: SocketAddr) -> Self {
        Self { is_api: false, ..Self::new(address) }
    }

    /// The same client with connections from another address of this machine.
    pub(crate) fn with_peer(self, peer: IpAddr) -> Self {
        Self { peer: Some(peer), ..self }
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends a request and returns the response, whatever its status.
    pub async fn send(&self, request: &HttpRequest) -> HttpResponse {
        let response = self.try_send(request).await;
        response.unwrap_or_else(|HttpError(error)| panic!("{} {}: {error}", request.method, request.target))
    }

    /// Like [`send`](Self::send), to a server that may have ended.
    pub async fn try_send(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        let exchange = tokio::time::timeout(TIMEOUT, self.exchange(request)).await;
        let response = exchange.unwrap_or_else(|_| Err(HttpError(format!("no response in {TIMEOUT:?}"))))?;
        if self.is_api {
            api_description::assert_described(self, request, &response).await;
        }
        Ok(response)
    }

    /// A GET without signature.
    pub async fn get(&self, target: &str) -> Result<HttpResponse, HttpError> {
        self.try_send(&HttpRequest::new("GET", target, Bytes::new())).await
    }

    pub(crate) async fn exchange(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        while let Some(mut connection) = self.take_idle() {
            match connection.try_send_request(request.to_hyper(self.address)?).await {
                Ok(response) => return self.receive(connection, response).await,
                Err(mut error) => {
                    // With the message: the server had closed this idle connection, the request never left.
                    if error.take_message().is_none() {
                        return Err(failed(error.into_error()));
                    }
                }
            }
        }
        let mut connection = self.connect().await?;
        let response = connection.send_request(request.to_hyper(self.address)?).await.map_err(failed)?;
        self.receive(connection, response).await
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, HttpError> {
        let socket = TcpSocket::new_v4().map_err(failed)?;
        if let Some(peer) = self.peer {
            socket.bind(SocketAddr::new(peer, 0)).map_err(failed)?;
        }
        let stream = socket.connect(self.address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let (connection, driver) = handshake(TokioIo::new(stream)).await.map_err(failed)?;
        tokio::spawn(driver);
        Ok(connection)
    }

    async fn receive(
        &self, connection: SendRequest<Full<Bytes>>, response: hyper::Response<hyper::body::Incoming>,
    ) -> Result<HttpResponse, HttpError> {
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(failed)?.to_bytes();
        self.idle().push(connection);
        Ok(HttpResponse { status: head.status.as_u16(), headers: head.headers, body })
    }

    fn take_idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle();
        idle.retain(|connection| !connection.is_closed());
        // One that is still busy with the end of an earlier exchange stays.
        let ready = idle.iter().rposition(SendRequest::is_ready)?;
        Some(idle.swap_remove(ready))
    }

    fn idle(&self) -> parking_lot::MutexGuard<'_, Vec<SendRequest<Full<Bytes>>>> {
        self.idle.lock()
    }
}

impl HttpRequest {
    /// A request without headers.
    pub fn new(method: &str, target: &str, body: impl Into<Bytes>) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), headers: Vec::new(), body: body.into() }
    }

    /// Adds a header and keeps others of that name.
    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Removes all headers of that name.
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(header, _)| header != name);
        self
    }

    /// Replaces all headers of that name by one.
    pub fn replacing(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without(name).with(name, value)
    }

    /// The text of a header. Panics when it is absent.
    pub fn header(&self, name: &str) -> String {
        let found = self.headers.iter().find(|(header, _)| header == name);
        let (_, value) = found.unwrap_or_else(|| panic!("no header {name}"));
        String::from_utf8_lossy(value).into_owned()
    }

    /// Replaces the body without a new signature.
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    fn to_hyper(&self, address: SocketAddr) -> Result<Request<Full<Bytes>>, HttpError> {
        let mut request = Request::builder().method(self.method.as_str()).uri(&self.target);
        request = request.header("host", address.to_string());
        for (name, value) in &self.headers {
            request = request.header(name, value.as_slice());
        }
        request.body(Full::new(self.body.clone())).map_err(failed)
    }
}

impl HttpResponse {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("no JSON ({error}): {self:?}"))
    }

    /// The text of a header, empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Checks the status, and returns the response.
    #[track_caller]
    pub fn assert_status(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Checks that this is an error body with exactly these fields (D4), which no cache keeps, and returns its message.
    #[track_caller]
    pub fn assert_error(&self, status: u16, code: &str) -> String {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!((self.status, self.header("cache-control")), (status, "no-store"), "{text}");
        let body = self.json();
        let mut fields: Vec<&String> = body.as_object().expect("an object").keys().collect();
        fields.sort();
        assert_eq!(fields, ["code", "message", "statusCode"], "{text}");
        assert_eq!(body["statusCode"], status, "{text}");
        assert_eq!(body["code"], code, "{text}");
        body["message"].as_str().expect("a message in words").to_owned()
    }
}

fn failed(error: impl std::fmt::Debug) -> HttpError {
    HttpError(format!("{error:?}"))
}
