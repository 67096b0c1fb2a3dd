// Tells the server in which time zone times are to be said, from the next page
// on. Without script they are in UTC, and the footer says so.
"use strict";
{
	const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
	const secure = location.protocol === "https:";
	const cookie = (secure ? "__Host-zone=" : "zone=") + zone;
	if (/^[\w+/-]+$/.test(zone) && !document.cookie.split("; ").includes(cookie)) {
		document.cookie = cookie + "; Path=/; Max-Age=31536000; SameSite=Lax" + (secure ? "; Secure" : "");
	}
}
