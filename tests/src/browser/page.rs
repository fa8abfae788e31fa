//! What a person does with a page, and sees on it.

use super::connection::Connection;
use crate::MAX_WAIT;
use crate::eventually::eventually;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::sync::Arc;

/// The colors that a person prefers.
#[derive(Clone, Copy, Debug)]
pub enum ColorScheme {
    /// Dark text on a light page.
    Light,
    /// Light text on a dark page.
    Dark,
}

/// A page of a browser.
#[derive(Debug)]
pub struct Page {
    connection: Arc<Connection>,
    session: String,
}

impl Page {
    pub(super) async fn new(connection: Arc<Connection>, session: String) -> Self {
        let page = Self { connection, session };
        for domain in ["Page", "Runtime", "Log"] {
            page.call(&format!("{domain}.enable"), json!({})).await;
        }
        page.set_size(1280, 900).await;
        // The empty document that it begins with is loaded, so that it is not taken for the first one that is opened.
        let loaded = "new Promise((done) => document.readyState === 'complete' ? setTimeout(done) : addEventListener('load', () => setTimeout(done)))";
        page.evaluate(loaded).await;
        page
    }

    async fn call(&self, method: &str, params: Value) -> Value {
        self.connection.call(Some(&self.session), method, params).await
    }

    /// Sets the size of the window in CSS pixels.
    pub async fn set_size(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Sets the preferred colors.
    pub async fn set_colors(&self, scheme: ColorScheme) {
        let value = match scheme {
            ColorScheme::Light => "light",
            ColorScheme::Dark => "dark",
        };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features})).await;
    }

    /// Sets the time zone, such as `Asia/Kolkata`, of the documents that are opened from now on.
    pub async fn set_time_zone(&self, name: &str) {
        self.call("Emulation.setTimezoneOverride", json!({"timezoneId": name})).await;
    }

    /// Has a script evaluated in each document that is opened from now on, before the document's own scripts.
    pub async fn add_script(&self, source: &str) {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": source})).await;
    }

    /// Turns off the scripts of pages, as some people do. The page can still be examined.
    pub async fn disable_scripts(&self) {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": true})).await;
    }

    /// Opens a URL, waits until it is loaded, and returns the status of the response.
    pub async fn open(&self, url: &str) -> u16 {
        let before = self.loads();
        let opened = self.call("Page.navigate", json!({"url": url})).await;
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
        self.until_loaded(before).await;
        self.status().await
    }

    /// The status of the response that the page came with.
    pub async fn status(&self) -> u16 {
        let status = self.evaluate("performance.getEntriesByType('navigation')[0].responseStatus").await;
        status.as_u64().and_then(|status| u16::try_from(status).ok()).expect("a status")
    }

    fn loads(&self) -> usize {
        self.connection.events(&self.session).loads
    }

    async fn until_loaded(&self, before: usize) {
        eventually("the page is loaded", MAX_WAIT, async || {
            if self.loads() > before { Ok(()) } else { Err("it is loading".to_owned()) }
        })
        .await;
    }

    /// The value of an expression in the page, which must not fail. A promise is awaited.
    pub async fn evaluate(&self, expression: &str) -> Value {
        self.try_evaluate(expression).await.unwrap_or_else(|error| panic!("{expression:.200}: {error}"))
    }

    /// The value of an expression in the page, or its error.
    pub async fn try_evaluate(&self, expression: &str) -> Result<Value, String> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let evaluated = self.connection.try_call(Some(&self.session), "Runtime.evaluate", params).await;
        let mut evaluated = evaluated?;
        match evaluated.get("exceptionDetails") {
            Some(error) => Err(error.to_string()),
            None => Ok(evaluated["result"]["value"].take()),
        }
    }

    /// The text that the page shows.
    pub async fn text(&self) -> String {
        self.evaluate("document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// The path and query of the page.
    pub async fn path(&self) -> String {
        self.evaluate("location.pathname + location.search").await.as_str().expect("a path").to_owned()
    }

    /// Clicks on the link, button or summary with this text, as somebody with a mouse does.
    pub async fn click(&self, text: &str) {
        let find = format!(
            "(() => {{
                const all = [...document.querySelectorAll('a, button, summary, label')];
                const found = all.find((element) => element.textContent.trim() === {});
                found?.scrollIntoView({{ block: 'center', behavior: 'instant' }});
                const box = found?.getBoundingClientRect();
                return box && {{ x: box.x + box.width / 2, y: box.y + box.height / 2 }};
            }})()",
            json!(text)
        );
        let at = self.evaluate(&find).await;
        assert!(at.is_object(), "there is no {text:?} on {}: {}", self.path().await, self.text().await);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": at["x"], "y": at["y"], "button": "left", "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Clicks on what leads to another page, and waits for it.
    pub async fn follow(&self, text: &str) {
        let before = self.loads();
        self.click(text).await;
        self.until_loaded(before).await;
    }

    /// Types into the field with this id, in place of what it had.
    pub async fn fill(&self, id: &str, text: &str) {
        let select = format!("const field = document.getElementById({}); field.focus(); field.select();", json!(id));
        self.evaluate(&format!("{{ {select} }}")).await;
        self.call("Input.insertText", json!({"text": text})).await;
    }

    /// Presses a key: `Tab`, `Enter` or ` `.
    pub async fn press(&self, key: &str) {
        let (code, number, text) = match key {
            "Tab" => ("Tab", 9, ""),
            "Enter" => ("Enter", 13, "\r"),
            " " => ("Space", 32, " "),
            other => panic!("unknown key {other:?}"),
        };
        for kind in [if text.is_empty() { "rawKeyDown" } else { "keyDown" }, "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": code, "windowsVirtualKeyCode": number});
            if kind == "keyDown" {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    /// What the browser has complained about since the last call.
    pub fn take_complaints(&self) -> Vec<String> {
        self.connection.take_complaints(&self.session)
    }

    /// A picture of what the window shows, as PNG.
    pub async fn screenshot(&self) -> Vec<u8> {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"})).await;
        STANDARD.decode(picture["data"].as_str().expect("a picture")).expect("base64")
    }
}
