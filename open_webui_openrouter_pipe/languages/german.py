"""German, in the formal address of Open WebUI's own translation."""
# ruff: noqa: RUF001 - no-break spaces stand where a line must not break

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from .language import Language

_LINES: Final = MappingProxyType(
    {
        "joined": "{lines:{separator}}",
        "list_item": "- {line}",
        "sentences": "{first} {second}",
        "dollars": "{amount:,.{decimals}f} $",
        "part_instructions": "Anweisungen",
        "part_tools": "Werkzeuge",
        "part_summaries": "Zusammenfassungen",
        "part_retrieved_text": "abgerufener Text",
        "part_note": "Hinweis auf ausgelassene Nachrichten",
        "part_latest_message": "neueste Nachricht",
        "part_current_tool_calls": "laufende Werkzeugaufrufe",
        "part_earlier_turns": "frühere Nachrichten",
        "period_day": "pro Tag",
        "period_month": "pro Monat",
        "resets_daily": "täglich",
        "resets_weekly": "wöchentlich",
        "resets_monthly": "monatlich",
        "the_image": "Das Bild",
        "the_audio": "Die Aufnahme",
        "the_video": "Das Video",
        "the_file": "Die Datei",
        "unreadable_event": (
            "OpenRouter hat etwas gesendet, das nicht zu einer Antwort gehört. Bitte versuchen Sie es erneut."
        ),
        "unexpected_error": (
            "Die Pipe ist auf einen unerwarteten Fehler gestoßen; Einzelheiten stehen im Protokoll des "
            "Servers."
        ),
        "reasoning_rejected": (
            "Der Anbieter hat die früheren Überlegungen nicht angenommen; es wird ohne sie geantwortet."
        ),
        "context_shortened": "Der Anbieter hat mehr Token gezählt, als in sein Kontextfenster passen.",
        "answer_not_saved": (
            "Teile dieser Antwort konnten nicht gespeichert werden; der Chat geht ohne ihre Überlegungen "
            "weiter."
        ),
        "answer_at_output_limit": (
            "Die Antwort hat die Ausgabegrenze erreicht. Klicken Sie auf „Antwort fortsetzen“ oder erhöhen "
            "Sie max_tokens."
        ),
        "answer_at_output_limit.no_button": (
            "Die Antwort hat die Ausgabegrenze erreicht. Bitten Sie das Modell fortzufahren oder erhöhen "
            "Sie max_tokens."
        ),
        "answer_filtered": "Der Inhaltsfilter des Anbieters hat die Antwort gestoppt.",
        "answer_cut_off": (
            "Der Anbieter hat die Antwort abgebrochen. Für den Rest klicken Sie auf „Antwort fortsetzen“."
        ),
        "answer_cut_off.no_button": (
            "Der Anbieter hat die Antwort abgebrochen. Bitten Sie das Modell fortzufahren."
        ),
        "answer_empty": (
            "Das Modell hat keine Antwort gegeben. Fragen Sie noch einmal oder wählen Sie ein anderes Modell."
        ),
        "no_encryption_key": (
            "Überlegungen und Werkzeugergebnisse werden nicht aufbewahrt, weil ein Schlüssel zum "
            "Verschlüsseln fehlt. Ein Administrator kann ihn im Valve ARTIFACT_ENCRYPTION_KEY der Funktion "
            "setzen."
        ),
        "attachment_not_stored": (
            "Das Bild konnte nicht unter den Dateien von Open WebUI gespeichert werden ({reason}); es "
            "bleibt im Chat selbst."
        ),
        "attachment_damaged": "es ist beschädigt",
        "attachment_storage_failed": "der Speicher hat versagt, Einzelheiten stehen im Protokoll des Servers",
        "attachment_not_a_picture": (
            "Das Modell hat ein Bild gesendet, dessen Format nicht angezeigt wird; möglich sind PNG, JPEG, "
            "WebP und GIF."
        ),
        "artifacts_unavailable": (
            "{count} gespeicherte Elemente konnten nicht geladen werden: Die Datenbank ist nicht erreichbar."
        ),
        "artifacts_unavailable.one": (
            "{count} gespeichertes Element konnte nicht geladen werden: Die Datenbank ist nicht erreichbar."
        ),
        "artifacts_missing": "{count} gespeicherte Elemente konnten nicht geladen werden ({details}).",
        "artifacts_missing.one": "{count} gespeichertes Element konnte nicht geladen werden ({details}).",
        "artifacts_not_found": "{count} nicht mehr vorhanden",
        "artifacts_unreadable": "{count} mit einem anderen Schlüssel verschlüsselt oder beschädigt",
        "artifacts_too_large": "{count} über der Größengrenze",
        "reading_attachments": "Die Anhänge dieses Chats werden gelesen...",
        "attachments_read": "Die Anhänge sind gelesen.",
        "attachments_unread_image": "{count} Bilder wurden nicht gesendet: Dieses Modell liest keine Bilder.",
        "attachments_unread_image.one": (
            "{count} Bild wurde nicht gesendet: Dieses Modell liest keine Bilder."
        ),
        "attachments_unread_audio": (
            "{count} Aufnahmen wurden nicht gesendet: Dieses Modell liest kein Audio."
        ),
        "attachments_unread_audio.one": (
            "{count} Aufnahme wurde nicht gesendet: Dieses Modell liest kein Audio."
        ),
        "attachments_unread_video": "{count} Videos wurden nicht gesendet: Dieses Modell liest keine Videos.",
        "attachments_unread_video.one": (
            "{count} Video wurde nicht gesendet: Dieses Modell liest keine Videos."
        ),
        "images_omitted": "{count} frühere Bilder sieht das Modell nicht mehr.",
        "images_omitted.one": "{count} früheres Bild sieht das Modell nicht mehr.",
        "images_too_many": "{count} Bilder wurden nicht gesendet: Eine Anfrage fasst höchstens {limit}.",
        "images_too_many.one": "{count} Bild wurde nicht gesendet: Eine Anfrage fasst höchstens {limit}.",
        "too_many_images": "eine Anfrage fasst höchstens {limit} Bilder",
        "attachments_omitted": (
            "{count} frühere Anhänge werden nicht mehr gesendet: Zusammen sind alle größer als "
            "{megabytes:,.0f} MB."
        ),
        "attachments_omitted.one": (
            "{count} früherer Anhang wird nicht mehr gesendet: Zusammen sind alle größer als "
            "{megabytes:,.0f} MB."
        ),
        "attachments_too_large": (
            "{count} Anhänge wurden nicht gesendet: Zusammen sind alle größer als {megabytes:,.0f} MB."
        ),
        "attachments_too_large.one": (
            "{count} Anhang wurde nicht gesendet: Zusammen sind alle größer als {megabytes:,.0f} MB."
        ),
        "too_large_together": "zusammen sind alle größer als {megabytes:,.0f} MB",
        "attachment_not_sent": "{name} wurde nicht gesendet: {reason}.",
        "attachment_kind": "dieses Modell liest keine Dateien vom Typ {kind}",
        "attachment_unknown": "der Dateityp ist unbekannt",
        "attachment_unreadable": "die Datei ist nicht lesbar",
        "attachment_too_large": "die Datei ist größer als {megabytes:,.0f} MB",
        "document_as_excerpts": (
            "Von {name} erhält dieses Modell nur Auszüge, die Open WebUI auswählt: {reason}."
        ),
        "no_api_key": (
            "Es ist kein OpenRouter-API-Schlüssel gesetzt. Ein Administrator kann das Valve API_KEY der "
            "Funktion setzen."
        ),
        "no_api_key.admin": (
            "Es ist kein OpenRouter-API-Schlüssel gesetzt. Tragen Sie einen in das Valve API_KEY der "
            "Funktion ein; Ihre Schlüssel finden Sie unter https://openrouter.ai/settings/keys."
        ),
        "unusable_key": (
            "Der OpenRouter-API-Schlüssel enthält Zeichen, die kein Schlüssel hat. Ein Administrator kann "
            "das Valve API_KEY der Funktion berichtigen."
        ),
        "unusable_address": (
            "Die Adresse von OpenRouter ist unbrauchbar. Ein Administrator kann das Valve BASE_URL der "
            "Funktion berichtigen."
        ),
        "not_openrouter": (
            "Der Server unter der Adresse von OpenRouter ist nicht OpenRouter oder gestört. Ein "
            "Administrator kann das Valve BASE_URL der Funktion prüfen."
        ),
        "unreachable": (
            "OpenRouter ist nicht erreichbar: Die Verbindung dieses Servers oder OpenRouter selbst ist "
            "ausgefallen. Bitte versuchen Sie es in einer Minute erneut."
        ),
        "unreachable.admin": (
            "OpenRouter ist nicht erreichbar: Die Verbindung dieses Servers oder OpenRouter selbst ist "
            "ausgefallen. Wenn es anhält, prüfen Sie Netzwerk und Proxy des Servers, das Valve BASE_URL der "
            "Funktion und https://status.openrouter.ai."
        ),
        "no_response": (
            "OpenRouter hat nicht innerhalb von {seconds:.0f} Sekunden geantwortet. Bitte versuchen Sie es "
            "erneut oder wählen Sie ein anderes Modell."
        ),
        "no_response.admin": (
            "OpenRouter hat nicht innerhalb von {seconds:.0f} Sekunden geantwortet. Bitte versuchen Sie es "
            "erneut oder wählen Sie ein anderes Modell; wie lange gewartet wird, kann im Valve ADVANCED der "
            "Funktion stehen (REQUEST_TIMEOUT_SECONDS)."
        ),
        "stream_silent": (
            "OpenRouter hat {seconds:.0f} Sekunden lang nichts gesendet, deshalb endet die Antwort hier. "
            "Bitte versuchen Sie es erneut."
        ),
        "stream_lost": (
            "Die Verbindung zu OpenRouter ist während der Antwort abgerissen. Bitte versuchen Sie es erneut."
        ),
        "stream_incomplete": (
            "OpenRouter hat die Antwort beendet, bevor sie vollständig war. Bitte versuchen Sie es erneut."
        ),
        "wait_unknown": "Bitte versuchen Sie es etwas später erneut",
        "wait_over": "Bitte versuchen Sie es jetzt erneut",
        "wait_seconds": "Bitte versuchen Sie es in {count} Sekunden erneut",
        "wait_seconds.one": "Bitte versuchen Sie es in {count} Sekunde erneut",
        "wait_minutes": "Bitte versuchen Sie es in etwa {count} Minuten erneut",
        "wait_tomorrow": "Bitte versuchen Sie es morgen erneut",
        "wait_hours": "Bitte versuchen Sie es in etwa {count} Stunden erneut",
        "quote": "Wörtlich: „{text}“",
        "a_provider": "Der Anbieter",
        "the_provider": "Der Anbieter {name}",
        "reasoning_not_accepted": (
            "Der Anbieter hat die früheren Überlegungen dieses Chats nicht angenommen. Bitte versuchen Sie "
            "es erneut."
        ),
        "too_long": (
            "Der Chat ist zu lang für dieses Modell. Kürzen Sie ihn oder wählen Sie ein Modell mit größerem "
            "Kontextfenster."
        ),
        "too_long_numbers": (
            "Der Chat ist zu lang für dieses Modell ({requested:,} Token, das Modell fasst {limit:,}). "
            "Kürzen Sie ihn oder wählen Sie ein Modell mit größerem Kontextfenster."
        ),
        "provider_unavailable": (
            "{provider} ist zurzeit nicht verfügbar. {wait} oder wählen Sie ein anderes Modell."
        ),
        "provider_overloaded": (
            "{provider} ist zurzeit überlastet. {wait} oder wählen Sie ein anderes Modell."
        ),
        "provider_slow": (
            "{provider} hat zu lange für die Antwort gebraucht. {wait} oder wählen Sie ein schnelleres "
            "Modell."
        ),
        "provider_busy": (
            "{provider} erhält zurzeit zu viele Anfragen. {wait} oder wählen Sie ein anderes Modell."
        ),
        "provider_busy.admin": (
            "{provider} erhält zurzeit zu viele Anfragen. {wait} oder wählen Sie ein anderes Modell. Wenn "
            "es häufig vorkommt, helfen mehr Guthaben, ein eigener Schlüssel des Anbieters bei OpenRouter "
            "oder Ausweichmodelle. {quote}"
        ),
        "free_daily_limit": (
            "Das Tageslimit der kostenlosen Modelle von OpenRouter ist erreicht. {wait} oder wählen Sie ein "
            "kostenpflichtiges Modell."
        ),
        "free_daily_limit.admin": (
            "Das Tageslimit der kostenlosen Modelle von OpenRouter ist erreicht. {wait} oder wählen Sie ein "
            "kostenpflichtiges Modell; Guthaben unter https://openrouter.ai/settings/credits erhöht das "
            "Limit."
        ),
        "free_limit": (
            "Das Minutenlimit der kostenlosen Modelle von OpenRouter ist erreicht. {wait} oder wählen Sie "
            "ein kostenpflichtiges Modell."
        ),
        "model_not_found": "OpenRouter kennt dieses Modell nicht. Bitte wählen Sie ein anderes.",
        "model_deprecated": "OpenRouter bietet dieses Modell nicht mehr an. Bitte wählen Sie ein anderes.",
        "free_variant_ended": (
            "Die kostenlose Variante dieses Modells gibt es nicht mehr. Wählen Sie die kostenpflichtige "
            "oder ein anderes Modell."
        ),
        "region_restricted": (
            "Dieses Modell wird in Ihrer Region nicht angeboten. Bitte wählen Sie ein anderes."
        ),
        "privacy_restricted": (
            "Kein Anbieter dieses Modells erfüllt die Datenschutzeinstellungen des Kontos. Bitte wählen Sie "
            "ein anderes Modell."
        ),
        "privacy_restricted.admin": (
            "Kein Anbieter dieses Modells erfüllt die Datenschutzeinstellungen des Kontos. Wählen Sie ein "
            "anderes Modell oder ändern Sie sie unter https://openrouter.ai/settings/privacy."
        ),
        "constraint_filtered": (
            "Kein Anbieter dieses Modells erfüllt die Anforderungen der Anfrage. Bitte wählen Sie ein "
            "anderes Modell."
        ),
        "constraint_filtered.admin": (
            "Kein Anbieter dieses Modells erfüllt die Anforderungen der Anfrage. Wählen Sie ein anderes "
            "Modell oder lockern Sie die Anbietereinstellungen des Modells."
        ),
        "no_endpoint": "Kein Anbieter dieses Modells kann diese Anfrage bearbeiten. {quote}",
        "no_tool_provider": (
            "Kein Anbieter dieses Modells unterstützt Werkzeuge. Schalten Sie die Werkzeuge aus oder wählen "
            "Sie ein anderes Modell."
        ),
        "no_attachment_provider": (
            "Kein Anbieter dieses Modells liest Anhänge dieser Art. Entfernen Sie den Anhang oder wählen "
            "Sie ein anderes Modell."
        ),
        "no_allowed_provider": (
            "Dieses Modell ist mit den Einstellungen dieses Servers nicht verfügbar. Bitte wählen Sie ein "
            "anderes."
        ),
        "no_allowed_provider.admin": (
            "Die Anbietereinstellungen schließen alle Anbieter dieses Modells aus. Wählen Sie ein anderes "
            "Modell oder lockern Sie die Einstellungen des Modells oder des OpenRouter-Kontos."
        ),
        "moderated": (
            "Die Moderation hat die Nachricht abgelehnt. Bitte formulieren Sie sie um oder wählen Sie ein "
            "anderes Modell."
        ),
        "moderated_reasons": (
            "Die Moderation hat die Nachricht abgelehnt ({reasons}). Bitte formulieren Sie sie um oder "
            "wählen Sie ein anderes Modell."
        ),
        "key_rejected": (
            "OpenRouter hat den API-Schlüssel dieses Servers nicht angenommen. Bitte informieren Sie Ihren "
            "Administrator."
        ),
        "key_rejected.admin": (
            "OpenRouter hat den API-Schlüssel nicht angenommen. Prüfen Sie das Valve API_KEY der Funktion: "
            "Gültige Schlüssel finden Sie unter https://openrouter.ai/settings/keys."
        ),
        "no_credits": (
            "Das OpenRouter-Konto hat für diese Anfrage zu wenig Guthaben. Bitte informieren Sie Ihren "
            "Administrator; eine kürzere Antwort oder ein günstigeres Modell ist vielleicht noch möglich."
        ),
        "no_credits.admin": (
            "Das OpenRouter-Konto hat für diese Anfrage zu wenig Guthaben. Laden Sie es unter "
            "https://openrouter.ai/settings/credits auf oder verringern Sie max_tokens."
        ),
        "no_credits_numbers": (
            "Das OpenRouter-Konto hat für diese Anfrage zu wenig Guthaben (bis zu {requested:,} Token "
            "wurden angefordert, bezahlbar sind {affordable:,}). Bitte informieren Sie Ihren Administrator; "
            "eine kürzere Antwort oder ein günstigeres Modell ist vielleicht noch möglich."
        ),
        "no_credits_numbers.admin": (
            "Das OpenRouter-Konto hat für diese Anfrage zu wenig Guthaben (bis zu {requested:,} Token "
            "wurden angefordert, bezahlbar sind {affordable:,}). Laden Sie es unter "
            "https://openrouter.ai/settings/credits auf oder verringern Sie max_tokens."
        ),
        "access_denied": (
            "OpenRouter hat diese Anfrage abgewiesen. Bitte wählen Sie ein anderes Modell oder informieren "
            "Sie Ihren Administrator. {quote}"
        ),
        "access_denied.admin": (
            "OpenRouter hat diese Anfrage abgewiesen. Prüfen Sie die Guardrails des Kontos und die Rechte "
            "des Schlüssels unter https://openrouter.ai/settings. {quote}"
        ),
        "request_too_large": (
            "Die Anfrage ist zu groß zum Senden. Entfernen oder verkleinern Sie Anhänge oder beginnen Sie "
            "einen neuen Chat."
        ),
        "request_rejected": (
            "Der Anbieter hat die Anfrage abgelehnt; unverändert hilft kein weiterer Versuch. Ändern Sie "
            "sie oder wählen Sie ein anderes Modell. {quote}"
        ),
        "provider_error": (
            "OpenRouter hat mit einem Fehler geantwortet. Bitte versuchen Sie es erneut oder wählen Sie ein "
            "anderes Modell. {quote}"
        ),
        "key_limit_reached": (
            "Das Ausgabenlimit des OpenRouter-Schlüssels dieses Servers ist erreicht. Bitte informieren Sie "
            "Ihren Administrator."
        ),
        "key_limit_reached.admin": (
            "Das Ausgabenlimit des OpenRouter-Schlüssels ist erreicht. Erhöhen Sie es unter "
            "https://openrouter.ai/settings/keys."
        ),
        "image_unusable": (
            "Der Anbieter kann ein Bild dieses Chats nicht verwenden. Entfernen Sie es oder hängen Sie es "
            "in einem anderen Format oder einer anderen Größe an. {quote}"
        ),
        "output_too_long": (
            "Die Anfrage verlangt eine längere Antwort, als das Modell schreiben kann. Verringern Sie "
            "max_tokens. {quote}"
        ),
        "model_refused": (
            "Das Modell hat die Antwort verweigert. Bitte formulieren Sie die Nachricht um oder wählen Sie "
            "ein anderes Modell."
        ),
        "data_residency": (
            "Die Regeln des Kontos, wo Daten verarbeitet werden dürfen, schließen dieses Modell aus. Bitte "
            "wählen Sie ein anderes."
        ),
        "data_residency.admin": (
            "Die Regeln des Kontos, wo Daten verarbeitet werden dürfen, schließen dieses Modell aus. Wählen "
            "Sie ein anderes oder ändern Sie sie unter https://openrouter.ai/settings/privacy."
        ),
        "effort_rejected": "Das Modell kennt diesen Denkaufwand nicht. Wählen Sie einen anderen. {quote}",
        "parameter_rejected": (
            "Das Modell nimmt einen der Parameter der Anfrage nicht an. Entfernen Sie ihn aus der Steuerung "
            "des Chats. {quote}"
        ),
        "effort_replaced": "Das Modell kennt den Denkaufwand `{asked}` nicht; erneut gefragt mit `{used}`.",
        "effort_omitted": "Das Modell kennt den Denkaufwand `{asked}` nicht; erneut gefragt ohne ihn.",
        "parameter_omitted": "Das Modell nimmt den Parameter {name} nicht an; erneut gefragt ohne ihn.",
        "retry_busy": (
            "Der Anbieter ist ausgelastet; neuer Versuch in {seconds} s ({attempt} von {attempts})..."
        ),
        "retry_unavailable": (
            "Der Anbieter ist nicht verfügbar; neuer Versuch in {seconds} s ({attempt} von {attempts})..."
        ),
        "retry_unreachable": (
            "OpenRouter ist nicht erreichbar; neuer Versuch in {seconds} s ({attempt} von {attempts})..."
        ),
        "retry_lost": (
            "Die Antwort von OpenRouter ist abgebrochen; neuer Versuch in {seconds} s ({attempt} von "
            "{attempts})..."
        ),
        "retrying": "Erneut gefragt ({attempt} von {attempts}).",
        "address_paused": (
            "OpenRouter ist zurzeit nicht erreichbar. Der nächste Versuch ist in {seconds:.0f} Sekunden "
            "möglich; bitte warten Sie bis dahin."
        ),
        "address_paused.admin": (
            "OpenRouter war {failures}-mal hintereinander nicht erreichbar. Der nächste Versuch ist in "
            "{seconds:.0f} Sekunden möglich. Wenn es anhält, prüfen Sie Netzwerk und Proxy des Servers, das "
            "Valve BASE_URL der Funktion und https://status.openrouter.ai."
        ),
        "waiting_for_place": "Zurzeit laufen viele Anfragen; diese wartet, bis sie an der Reihe ist...",
        "place_found": "Das Warten ist vorbei.",
        "queue_full": (
            "Dieser Server ist ausgelastet: Zu viele Anfragen warten. Bitte versuchen Sie es in einer "
            "Minute erneut."
        ),
        "queue_full.admin": (
            "Auf diesem Server warten zu viele Anfragen. Wie viele laufen, kann im Valve ADVANCED der "
            "Funktion stehen (MAX_REQUESTS, MAX_REQUESTS_PER_USER)."
        ),
        "queue_slow": (
            "Dieser Server ist ausgelastet: Die Anfrage hat {seconds:.0f} Sekunden auf andere gewartet. "
            "Bitte versuchen Sie es später erneut."
        ),
        "queue_slow.admin": (
            "Die Anfrage hat {seconds:.0f} Sekunden auf andere gewartet. Wie viele laufen, kann im Valve "
            "ADVANCED der Funktion stehen (MAX_REQUESTS, MAX_REQUESTS_PER_USER)."
        ),
        "with_reference": "{line} (Referenz {reference})",
        "no_provider_left": (
            "Die Anbietereinstellungen des Modells und die des Administrators schließen einander aus, "
            "sodass kein Anbieter übrig bleibt. Wählen Sie ein anderes Modell; ein Administrator kann die "
            "Einstellungen lockern."
        ),
        "own_key_rejected": (
            "OpenRouter hat Ihren eigenen API-Schlüssel nicht angenommen. Berichtigen oder entfernen Sie "
            "ihn in Ihren Valves (Steuerung → Valves)."
        ),
        "own_key_without_credits": (
            "Ihr eigenes OpenRouter-Konto hat für diese Anfrage zu wenig Guthaben. Laden Sie es unter "
            "https://openrouter.ai/settings/credits auf oder entfernen Sie Ihren API-Schlüssel in Ihren "
            "Valves (Steuerung → Valves)."
        ),
        "own_key_unreadable": (
            "Ihr eigener API-Schlüssel ist nicht lesbar: Er wurde für einen anderen Benutzer verschlüsselt, "
            "oder der geheime Schlüssel des Servers hat sich geändert. Geben Sie ihn in Ihren Valves "
            "(Steuerung → Valves) neu ein oder entfernen Sie ihn."
        ),
        "search_keeps_data": (
            "Das Web wird nicht durchsucht: Wenn niemand Daten aufbewahren darf, sucht nur der Anbieter des "
            "Modells selbst, und dieser hat keine Suche."
        ),
        "searching": "Das Web wird durchsucht...",
        "searched": "Das Web wurde durchsucht.",
        "searched_for": "Im Web gesucht: {query}",
        "search_failed": "Die Suche ist nicht gelungen.",
        "reading_page": "Eine Webseite wird gelesen...",
        "page_read": "Gelesen: {url}",
        "status_ready_advice": "Alles ist in Ordnung. Wählen Sie eines der Modelle.",
        "status_no_key_advice": (
            "Es ist kein API-Schlüssel gesetzt. Erstellen Sie einen unter "
            "https://openrouter.ai/settings/keys. Setzen Sie ihn als `API_KEY` unter Admin-Bereich → "
            "Funktionen → Zahnrad dieser Funktion oder als Umgebungsvariable `OPENROUTER_API_KEY` des "
            "Servers."
        ),
        "status_key_unusable_advice": (
            "`API_KEY` in den Valves enthält Zeichen, die kein Schlüssel hat. Kopieren Sie den Schlüssel "
            "noch einmal, vollständig und ohne Anführungszeichen."
        ),
        "status_key_refused_advice": (
            "OpenRouter lehnt den API-Schlüssel ab: Er ist vertippt, deaktiviert oder gelöscht. Prüfen Sie "
            "ihn unter https://openrouter.ai/settings/keys und setzen Sie `API_KEY` in den Valves neu."
        ),
        "status_key_used_up_advice": (
            "Vom Limit des API-Schlüssels ist nichts mehr übrig. Erhöhen Sie es unter "
            "https://openrouter.ai/settings/keys oder setzen Sie einen anderen Schlüssel."
        ),
        "status_address_advice": (
            "`BASE_URL` in den Valves ist keine Adresse: Sie beginnt mit https:// oder http:// und dem "
            "Namen eines Servers. Der Standard ist https://openrouter.ai/api/v1."
        ),
        "status_not_openrouter_advice": (
            "Was unter `BASE_URL` in den Valves antwortet, hat keine Modellliste und ist damit nicht die "
            "API von OpenRouter. Der Standard ist https://openrouter.ai/api/v1; nötig ist der ganze Pfad."
        ),
        "status_unreachable_advice": (
            "OpenRouter ist seit {since} nicht erreichbar. Prüfen Sie `BASE_URL` in den Valves und ob "
            "dieser Server sich dorthin verbinden darf: Netzwerk, DNS, Proxy, Firewall. Einzelheiten stehen "
            "im Protokoll des Servers. Es wird von selbst erneut versucht."
        ),
        "status_failing_advice": (
            "OpenRouter antwortet seit {since} mit Fehlern. Einzelheiten stehen im Protokoll des Servers, "
            "und https://status.openrouter.ai sagt, ob es eine Störung gibt. Es wird von selbst erneut "
            "versucht."
        ),
        "status_loading_advice": "Die Modellliste ist unterwegs. Laden Sie die Seite gleich neu.",
        "status_unmatched_advice": (
            "Kein Modell passt zu den Mustern von `MODELS` in den Valves; `*` bietet alle Modelle an."
        ),
        "status_filtered_advice": (
            "Von den Modellen, die `MODELS` in den Valves anbietet, erfüllt keines alle `MODEL_FILTERS`."
        ),
        "status_unknown_filter_advice": (
            "`MODEL_FILTERS` in den Valves enthält unbekannte Wörter, und bis zur Berichtigung wird kein "
            "Modell angeboten: {words}. Möglich sind `free`, `tools`, `vision`, `zdr`, `newest`, "
            "`no-expiring`, `context>=128k` und `price<=2`, durch Kommas getrennt."
        ),
        "status_zdr_unknown_advice": (
            "Welche Modelle keine Daten aufbewahren, ist noch nicht bekannt. Mit `zdr` in `MODEL_FILTERS` "
            "wird kein Modell angeboten, bis die Liste von OpenRouter dazu gelesen ist; warum das nicht "
            "ging, steht im Protokoll des Servers. Es wird von selbst erneut versucht."
        ),
        "status_unknown_variant_advice": (
            "`VARIANTS` in `ADVANCED` hat Einträge, die keine Varianten sind: {words}. Möglich sind Muster "
            "mit einer Variante oder einem Preset, etwa `openai/gpt-5*:nitro`, `anthropic/*@preset/team` "
            "oder `@preset/team`. Die übrigen werden angeboten."
        ),
        "status_models": "{count:,} Modelle werden angeboten.",
        "status_models.one": "{count:,} Modell wird angeboten.",
        "status_for_users_ready": "OpenRouter ist bereit. Wählen Sie eines seiner Modelle.",
        "status_for_users_wait": (
            "OpenRouter ist zurzeit nicht nutzbar. Bitte versuchen Sie es in einigen Minuten erneut."
        ),
        "status_for_users_ask": (
            "OpenRouter ist derzeit nicht nutzbar. Ein Administrator muss es einrichten; bitte wenden Sie "
            "sich an einen."
        ),
        "key_used": (
            "Der API-Schlüssel hat {total:,.2f} $ verbraucht: {month:,.2f} $ in diesem Monat, "
            "{today:,.2f} $ heute."
        ),
        "key_limit": "Sein Limit ist {limit:,.2f} $; davon sind {remaining:,.2f} $ übrig.",
        "key_limit_resets": "Sein Limit ist {limit:,.2f} $ ({period}); davon sind {remaining:,.2f} $ übrig.",
        "key_without_limit": "Er hat kein eigenes Limit; das Guthaben des Kontos begrenzt ihn.",
        "key_free_tier": (
            "Es wurde noch kein Guthaben gekauft: Nur kostenlose Modelle sind nutzbar, mit wenigen Anfragen "
            "am Tag. Guthaben gibt es unter https://openrouter.ai/settings/credits."
        ),
        "key_expires": "Er läuft ab am {time}.",
        "no_messages": "Diese Anfrage enthält keine lesbaren Nachrichten.",
        "no_model": "Diese Anfrage nennt kein Modell.",
        "parameters_omitted": (
            "Aus Ihren Anfragen weggelassen, weil der Administrator Benutzern diese Einstellungen nicht "
            "erlaubt: {names}."
        ),
        "download_address_refused": "die Adresse ist nicht erlaubt",
        "download_unreachable": "der Server war nicht erreichbar",
        "download_refused": "der Server antwortete mit dem Status {status}",
        "download_broken": "die Verbindung ist abgerissen",
        "download_compressed": "der Server hat die Datei komprimiert gesendet",
        "download_redirects": "die Adresse leitet zu oft weiter",
        "download_too_slow": "es dauerte länger als {seconds:,.0f} Sekunden",
        "file_not_found": "die Datei gibt es nicht, oder Sie dürfen sie nicht lesen",
        "file_content_missing": "der Speicher von Open WebUI hat ihren Inhalt nicht mehr",
        "file_unreadable": "der Speicher von Open WebUI war nicht lesbar",
        "file_not_stored": "der Speicher von Open WebUI hat die Datei nicht angenommen",
        "limits_unreadable": (
            "Chats sind nicht möglich: Ein Administrator muss das Valve SPENDING_LIMITS der Funktion "
            "berichtigen, von dem dieser Teil nicht lesbar ist: {part}"
        ),
        "limits_unreadable_admin": (
            "Benutzer können nicht chatten, weil dieser Teil des Valves SPENDING_LIMITS der Funktion nicht "
            "lesbar ist: {part}"
        ),
        "limits_unavailable": (
            "Es wurde nichts gesendet: Die Ausgabenlimits lassen sich nicht prüfen, weil die Datenbank "
            "nicht erreichbar ist. Bitte versuchen Sie es erneut."
        ),
        "limit_reached": (
            "{whose} von {amount} {period} ist aufgebraucht, bis {when}. Es wurde nichts gesendet."
        ),
        "limit_near": (
            "{whose} von {amount} {period} ist fast aufgebraucht, bis {when}: Lange Chats werden gekürzt, "
            "damit sie weniger kosten."
        ),
        "limit_in_use": (
            "Es wurde nichts gesendet: Den Rest des Ausgabenlimits nutzen andere Anfragen. Bitte versuchen "
            "Sie es erneut, wenn diese beantwortet sind."
        ),
        "task_of_declined": "Nicht gesendet: Auch die Nachricht dieses Chats wurde nicht gesendet.",
        "limit_waiting": "Vom Ausgabenlimit ist wenig übrig; andere Antworten werden abgewartet...",
        "limit_of_user": "Ihr Ausgabenlimit",
        "limit_of_group": "Das Ausgabenlimit der Gruppe {group}",
        "limit_of_all": "Das Ausgabenlimit aller Benutzer",
        "confirm_title": "Für etwa {cost} senden?",
        "confirm_cost": (
            "Das Modell liest für diese Nachricht etwa {tokens:,} Token, keines davon aus dem Cache des "
            "Anbieters. Das kostet etwa {cost}; die Antwort kommt hinzu. Abbrechen sendet nichts und kostet "
            "nichts."
        ),
        "confirm_cost_cached": (
            "Das Modell liest für diese Nachricht etwa {tokens:,} Token, davon {cached:,} aus dem Cache des "
            "Anbieters. Das kostet etwa {cost}; die Antwort kommt hinzu. Abbrechen sendet nichts und kostet "
            "nichts."
        ),
        "confirm_switch": (
            "{earlier} hat diesen Chat noch im Cache: Dort kostet diese Nachricht etwa {cached}. {model} "
            "muss alles für etwa {cost} lesen; die Antwort kommt hinzu. Abbrechen sendet nichts und kostet "
            "nichts."
        ),
        "declined": "Nicht gesendet: Sie haben etwa {cost} nicht zugestimmt. Es wurde nichts berechnet.",
        "cost_line": "{line}",
        "cost_input": "{tokens:,} Token ein",
        "cost_input_cached": "{tokens:,} Token ein ({cached:,} aus dem Cache)",
        "cost_output": "{tokens:,} aus",
        "cost_seconds": "{seconds:,.1f} s",
        "cost_speed": "{speed:,.0f} Token/s",
        "next_cost": "nächste Nachricht ab {cost}",
        "next_cost_until": "nächste Nachricht ab {cached} ({cold} nach {when})",
        "tomorrow_at": "morgen um {clock}",
        "on_day_at": "{day} um {clock}",
        "reasoning_disabled": (
            "Überlegungen werden nicht aufbewahrt: Der Administrator hat es abgeschaltet, was auch immer "
            "Ihre eigene Einstellung sagt."
        ),
        "user_limits_not_followed": (
            "Einige Ihrer Einstellungen sind wirkungslos, weil der Administrator sie Benutzern nicht "
            "erlaubt: {names}."
        ),
        "user_valves_lost": (
            "Es wurde nichts gesendet, weil einige Ihrer Einstellungen nicht lesbar sind, darunter wer Ihre "
            "Chats aufbewahren oder bezahlen darf: {names}. Setzen Sie sie in Ihren Valves (Steuerung → "
            "Valves) neu und speichern Sie."
        ),
        "user_valves_unreadable": (
            "Einige Ihrer Einstellungen sind nicht lesbar und wirkungslos: {names}. Setzen Sie sie in Ihren "
            "Valves (Steuerung → Valves) neu."
        ),
        "valves_not_saved": "Nicht gespeichert. {problems}.",
        "valves_lost": (
            "Es wurde nichts gesendet, weil Einstellungen nicht lesbar sind, die Chats schützen oder ihre "
            "Kosten begrenzen: {names}. Ein Administrator muss sie in den Valves der Funktion neu setzen."
        ),
        "summary_failure_empty": "die Antwort des Modells war leer",
        "summary_failure_malformed": "die Antwort des Modells hatte nicht die erwartete Form",
        "summary_failure_longer_than_its_source": "die Zusammenfassung war länger als das Zusammengefasste",
        "summary_failure_repeats_its_prompt": "das Modell hat seine Anweisungen wiederholt",
        "summary_failure_cut_off": "die Antwort des Modells wurde abgebrochen",
        "summary_failure_calls_a_tool": "das Modell hat ein Werkzeug aufgerufen",
        "summary_failure_reasoning_only": "das Modell hat nur überlegt und nicht geantwortet",
        "summary_failure_refused": "das Modell hat sich geweigert",
        "summary_failure_not_grounded": "die Zusammenfassung enthielt Einzelheiten, die nicht im Chat stehen",
        "summary_failure_no_content": "die Antwort des Modells sagte nichts aus",
        "summary_failure_too_short": "die Zusammenfassung war zu kurz",
        "summary_failure_not_about_its_source": "die Zusammenfassung handelte nicht vom Chat",
        "summary_failure_timed_out": "das Modell hat zu lange gebraucht",
        "summary_failure_claimed_elsewhere": "ein anderer Serverprozess ist schon dabei",
        "summary_failure_database_unavailable": "die Datenbank ist nicht erreichbar",
        "summary_failure_provider": "der Anbieter hat mit einem Fehler geantwortet",
        "summary_failure_unexpected_error": "unerwarteter Fehler",
        "window_too_small": (
            "Das Kontextfenster des Modells von {window_tokens:,} Token lässt keinen Platz für eine Eingabe."
        ),
        "window_too_small_advice": "Wählen Sie ein Modell mit größerem Kontextfenster.",
        "overflow": (
            "Diese Anfrage braucht etwa {needed_tokens:,} Token, aber neben der Antwort passen nur "
            "{limit_tokens:,} in das Kontextfenster des Modells von {window_tokens:,}."
        ),
        "overflow_largest": "Der größte Teil, den Sie ändern können: {largest}, {tokens:,} Token.",
        "overflow_instructions": (
            "Kürzen Sie den System-Prompt oder wählen Sie ein Modell mit größerem Kontextfenster."
        ),
        "overflow_tools": "Schalten Sie Werkzeuge aus, die dieser Chat nicht braucht.",
        "overflow_summaries": "Beginnen Sie einen neuen Chat.",
        "overflow_retrieved_text": "Hängen Sie weniger Dokumente an oder fragen Sie nach weniger Quellen.",
        "overflow_note": "Beginnen Sie einen neuen Chat.",
        "overflow_latest_message": (
            "Kürzen Sie Ihre Nachricht oder ihre Anhänge oder senden Sie sie in Teilen."
        ),
        "overflow_current_tool_calls": (
            "Verlangen Sie weniger auf einmal, damit weniger Werkzeuge aufgerufen werden."
        ),
        "overflow_earlier_turns": (
            "Beginnen Sie einen neuen Chat oder wählen Sie ein Modell mit größerem Kontextfenster."
        ),
        "turns_omitted": (
            "{count} von {of} früheren Nachrichten mit ihren Antworten wurden weggelassen: etwa {tokens:,} "
            "Token."
        ),
        "turns_omitted.one": (
            "{count} von {of} früheren Nachrichten mit ihrer Antwort wurde weggelassen: etwa {tokens:,} "
            "Token."
        ),
        "turns_clipped": "Nur die letzten {count} Nachrichten dieses Chats werden an das Modell gesendet.",
        "turns_clipped.one": "Nur die letzte Nachricht dieses Chats wird an das Modell gesendet.",
        "turns_shortened": (
            "{count} von {of} früheren Nachrichten mit ihren Antworten wurden gekürzt: etwa {tokens:,} "
            "Token weniger."
        ),
        "turns_shortened.one": (
            "{count} von {of} früheren Nachrichten mit ihrer Antwort wurde gekürzt: etwa {tokens:,} Token "
            "weniger."
        ),
        "results_stated": (
            "{count} Werkzeugergebnisse wurden auf ihre wichtigsten Angaben gekürzt: etwa {tokens:,} Token "
            "weniger."
        ),
        "results_stated.one": (
            "{count} Werkzeugergebnis wurde auf seine wichtigsten Angaben gekürzt: etwa {tokens:,} Token "
            "weniger."
        ),
        "results_capped": (
            "{count} lange Werkzeugergebnisse wurden auf Anfang und Ende gekürzt: etwa {tokens:,} Token "
            "weniger."
        ),
        "results_capped.one": (
            "{count} langes Werkzeugergebnis wurde auf Anfang und Ende gekürzt: etwa {tokens:,} Token "
            "weniger."
        ),
        "retrieved_cut": (
            "Der abgerufene Text wurde auf seinen Anfang gekürzt: etwa {tokens:,} von {of:,} Token wurden "
            "weggelassen."
        ),
        "retrieved_omitted": "Der abgerufene Text wurde weggelassen: etwa {tokens:,} Token.",
        "tools_omitted": (
            "{count} eingebaute Werkzeuge von Open WebUI wurden weggelassen, damit die Anfrage in das "
            "Kontextfenster des Modells passt: etwa {tokens:,} Token. Ein Administrator kann sie für dieses "
            "Modell abschalten."
        ),
        "tools_omitted.one": (
            "{count} eingebautes Werkzeug von Open WebUI wurde weggelassen, damit die Anfrage in das "
            "Kontextfenster des Modells passt: etwa {tokens:,} Token. Ein Administrator kann es für dieses "
            "Modell abschalten."
        ),
        "summarizing": "Der Chat wird zusammengefasst ({tokens:,} Token)...",
        "summarized": "Zusammengefasst: {before_tokens:,} → {after_tokens:,} Token",
        "summarized_cost": "{line} ({cost})",
        "summarized_partly": "{line}; ein Teil konnte nicht zusammengefasst werden: {reason}.",
        "not_summarized": "Der Chat konnte nicht zusammengefasst werden: {reason}.",
        "help_title": (
            "Geben Sie einen dieser Befehle als eigene Nachricht ein. Er wird hier ohne Modell "
            "beantwortet, und kein Modell sieht ihn."
        ),
        "help_context": "`/context`: woraus die nächste Anfrage besteht und was dieser Chat gekostet hat.",
        "help_compact": (
            "`/compact` oder `/compact what to keep` (was erhalten bleiben soll): fasst alles außer den "
            "neuesten Nachrichten jetzt zusammen; nur dieser Befehl kostet etwas."
        ),
        "help_restore": "`/restore` oder `/restore 3-8`: sendet frühere Nachrichten wieder wörtlich.",
        "help_discard": (
            "`/discard` oder `/discard 3-8`: lässt die Zusammenfassungen früherer Nachrichten neu schreiben."
        ),
        "help_aim": (
            "`/aim faithful` sendet so viel vom Chat, wie passt, `/aim thrifty`, was am wenigsten kostet; "
            "ab jetzt, in diesem Chat."
        ),
        "help_aim_now": "Dieser Chat wird mit dem Ziel `{aim}` gesendet.",
        "help_drawing": (
            "Dieses Modell zeichnet nur: `/compact` braucht ein anderes Modell im Valve SUMMARY_MODEL, die "
            "übrigen Befehle gelten."
        ),
        "command_misused": "`/{name}` lässt sich so nicht verwenden. {usage}",
        "aim_set": "Ab jetzt gilt für diesen Chat das Ziel `{aim}`.",
        "aim_kept": "Für diesen Chat gilt das Ziel `{aim}` bereits.",
        "compact_waiting": "{line} Das dauert bis zu {seconds:.0f} Sekunden.",
        "compact_done": (
            "Die ersten {count} Nachrichten sind mit ihren Antworten zusammengefasst: Die nächste Anfrage "
            "hat etwa {after:,} Token statt {before:,}."
        ),
        "compact_done.one": (
            "Die erste Nachricht ist mit ihrer Antwort zusammengefasst: Die nächste Anfrage hat etwa "
            "{after:,} Token statt {before:,}."
        ),
        "compact_done_again": (
            "Die ersten {count} Nachrichten sind mit ihren Antworten zusammengefasst: Die nächste "
            "Anfrage hat etwa {after:,} Token."
        ),
        "compact_done_again.one": (
            "Die erste Nachricht ist mit ihrer Antwort zusammengefasst: Die nächste Anfrage hat etwa "
            "{after:,} Token."
        ),
        "compact_cost": "Die Zusammenfassungen haben {cost} gekostet.",
        "compact_kept": "Die Zusammenfassungen gab es schon; sie haben nichts gekostet.",
        "compact_failed": (
            "Die Zusammenfassung wurde nicht geschrieben: {reason}. Die nächste Nachricht versucht es "
            "erneut; `/restore` nimmt den Befehl zurück."
        ),
        "compact_too_short": (
            "Es wurde nichts zusammengefasst: Was vor den neuesten Nachrichten steht, ist zu kurz oder "
            "schon zusammengefasst."
        ),
        "compact_off": (
            "Es wurde nichts zusammengefasst: Zusammenfassungen sind hier abgeschaltet. Ein Administrator "
            "kann das Valve CONTEXT_STRATEGY auf `summarize` setzen."
        ),
        "restored": (
            "Ab jetzt wieder wörtlich gesendet: Nachrichten {turns}. Eine Anfrage hat dann etwa {after:,} "
            "Token statt {before:,}."
        ),
        "restored_partly": "Für die Nachrichten {turns} ist daneben kein Platz.",
        "restore_nothing": "Alle diese Nachrichten werden schon wörtlich gesendet.",
        "restore_no_room": (
            "Für den Wortlaut der Nachrichten {turns} ist kein Platz. Nennen Sie weniger, oder "
            "wählen Sie ein Modell mit größerem Fenster."
        ),
        "no_such_turns": "Solche Nachrichten hat dieser Chat nicht: Er hat {turns}.",
        "discarded": (
            "{count} Zusammenfassungen sind verworfen. Mit der nächsten Nachricht werden sie neu geschrieben."
        ),
        "discarded.one": (
            "{count} Zusammenfassung ist verworfen. Mit der nächsten Nachricht wird sie neu geschrieben."
        ),
        "discard_nothing": "Für diese Nachrichten steht keine Zusammenfassung.",
        "context_title": "Die nächste Anfrage an {model}",
        "context_window": "Etwa {tokens:,} von {window_tokens:,} Token, {share:.0%} des Kontextfensters.",
        "context_window_unknown": (
            "Etwa {tokens:,} Token; wie groß das Kontextfenster des Modells ist, ist nicht bekannt."
        ),
        "context_aim_faithful": "Das Ziel ist `faithful`: Es wird so viel vom Chat gesendet, wie passt.",
        "context_aim_thrifty": "Das Ziel ist `thrifty`: Es wird gesendet, was am wenigsten kostet.",
        "context_part": "Teil",
        "context_tokens": "Token",
        "context_share": "Anteil",
        "context_part_system": "System-Prompt und Quellen",
        "context_part_tools": "Werkzeuge",
        "context_part_summaries": "Zusammenfassungen",
        "context_part_shortened": "Gekürzte Nachrichten",
        "context_part_recalled": "Nachgeschlagene Stellen",
        "context_part_verbatim": "Wörtliche Nachrichten",
        "context_part_attachments": "Anhänge",
        "context_part_reserve": "Für die Antwort frei gehalten",
        "context_turn": "Nachricht",
        "context_wrote": "Was Sie schrieben",
        "context_sent": "Gesendet",
        "context_original": "Von",
        "context_state": "Zustand",
        "context_cached": "Im Cache",
        "context_state_verbatim": "wörtlich",
        "context_state_shortened": "gekürzt",
        "context_state_summarized": "zusammengefasst",
        "context_state_dropped": "weggelassen",
        "context_yes": "ja",
        "context_no": "nein",
        "context_earlier_turns": "{count} frühere Nachrichten",
        "context_earlier_turns.one": "{count} frühere Nachricht",
        "context_cost": "Dieser Chat hat bisher {cost} gekostet, in {count} Anfragen.",
        "context_cost.one": "Dieser Chat hat bisher {cost} gekostet, in {count} Anfrage.",
        "context_read": "{share:.0%} seiner Eingabe wurden aus dem Cache des Anbieters gelesen, für {cost}.",
        "context_saved": "Den ganzen Chat ohne Cache zu senden, hätte {cost} mehr gekostet.",
        "context_breaks": "Weshalb der Anbieter den Chat neu lesen musste, das Neueste zuerst:",
        "context_break_turn": "Nachricht {turn}",
        "context_break_start": "vor der ersten Nachricht",
        "context_cause_retention": "alte Werkzeugergebnisse wurden gekürzt",
        "context_cause_clip": "nur die letzten Nachrichten werden gesendet",
        "context_cause_summary": "alte Nachrichten wurden zusammengefasst",
        "context_cause_prune": "alte Nachrichten wurden gekürzt",
        "context_cause_evict": "alte Nachrichten wurden weggelassen",
        "context_cause_recall": "das Werkzeug kam hinzu, das Entferntes nachschlägt",
        "context_cause_restore": "Nachrichten wurden wiederhergestellt oder passten nicht mehr",
        "context_cause_discard": "Zusammenfassungen wurden verworfen",
        "context_cause_clock": "eine Zeit oder Zahl im System-Prompt hat sich geändert",
        "context_cause_memory": "die Erinnerungen von Open WebUI haben sich geändert",
        "context_cause_prompt": "der System-Prompt hat sich geändert",
        "context_cause_tools": "die Werkzeuge haben sich geändert",
        "context_cause_settings": "ein Parameter hat sich geändert",
        "context_cause_reasoning": "Überlegungen früherer Antworten haben sich geändert",
        "context_cause_results": "frühere Werkzeugergebnisse haben sich geändert",
        "context_cause_attachments": "frühere Anhänge haben sich geändert",
        "context_cause_sources": "der abgerufene Text hat sich geändert",
        "context_cause_edit": "frühere Nachrichten wurden geändert",
        "context_cause_plan": "frühere Nachrichten werden anders gekürzt als zuvor",
        "context_cause_unknown": "der Grund ist nicht bekannt",
        "context_summary": (
            "Zusammenfassung der Nachrichten {first} bis {last}: {tokens:,} Token statt {source_tokens:,}"
        ),
        "context_summary_missing": (
            "Mit der nächsten Nachricht werden die Nachrichten {first} bis {last} zusammengefasst."
        ),
        "context_as_text": "Dasselbe als Text",
        "context_hint": (
            "`/restore 3-8` sendet Nachrichten wieder wörtlich, `/discard 3-8` lässt ihre Zusammenfassung "
            "neu schreiben; `/help` nennt alle Befehle."
        ),
        "context_hint_help": "`/help` nennt alle Befehle.",
        "context_page_language": "de",
        "context_page_number": "{number:,}",
        "context_page_share": "{share:.1%}",
        "context_page_amount": "{amount}",
        "context_page_over": "{count:,} Token mehr, als in das Kontextfenster passen.",
        "context_page_over.one": "{count:,} Token mehr, als in das Kontextfenster passt.",
        "context_page_free": "Frei",
        "context_page_turns": "Nachrichten, in Token",
        "context_page_no_turns": "Dieser Chat hat noch keine Nachrichten.",
        "context_page_cost": "Kosten",
        "context_page_breaks": "Was den Cache unterbrochen hat",
        "context_page_no_breaks": "Bisher nichts.",
        "context_page_cause": "Grund",
        "context_page_planned": "Geplant",
        "context_page_uncounted": "nicht gezählt",
        "context_page_summaries": "Zusammenfassungen",
        "context_page_summary": "Nachrichten {first} bis {last}",
        "context_page_summary_of_turn": "Nachricht {turn}",
        "context_page_summary_size": "{tokens:,} Token statt {source_tokens:,}",
        "context_page_restore": "Wiederherstellen",
        "context_page_discard": "Verwerfen",
        "context_page_commands": (
            "„Wiederherstellen“ sendet diese Nachrichten wieder wörtlich, „Verwerfen“ lässt die "
            "Zusammenfassung neu schreiben. Sie können auch `{restore}` oder `{discard}` eingeben."
        ),
    }
)
GERMAN: Final = Language(
    "de",
    _LINES,
    decimal=",",
    thousands=".",
    day="{day}. {month}",
    months=(
        *("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli"),
        *("August", "September", "Oktober", "November", "Dezember"),
    ),
)
