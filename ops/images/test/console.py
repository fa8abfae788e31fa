"""Signs in to the settings area with a link of `connectctl console login`, and prints the first page.

    console.py LINK
"""

import http.client
import sys
import urllib.parse

link = urllib.parse.urlsplit(sys.argv[1])
console = http.client.HTTPConnection(link.netloc, timeout=30)
form = urllib.parse.urlencode({"token": link.path.rpartition("/")[2]})
headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"{link.scheme}://{link.netloc}"}
console.request("POST", "/sign-in", form, headers)
signed_in = console.getresponse()
signed_in.read()
if signed_in.status != 303:
    sys.exit(f"sign-in: {signed_in.status}")
cookie = signed_in.headers["Set-Cookie"].partition(";")[0]
console.request("GET", signed_in.headers["Location"], headers={"Cookie": cookie})
page = console.getresponse()
print(page.read().decode())
sys.exit(0 if page.status == 200 else f"first page: {page.status}")
