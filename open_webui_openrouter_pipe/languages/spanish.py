"""Spanish, in the formal address."""
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
        "dollars": "{amount:,.{decimals}f} US$",
        "part_instructions": "instrucciones",
        "part_tools": "herramientas",
        "part_summaries": "resúmenes",
        "part_retrieved_text": "texto recuperado",
        "part_note": "nota sobre los mensajes omitidos",
        "part_latest_message": "último mensaje",
        "part_current_tool_calls": "llamadas a herramientas en curso",
        "part_earlier_turns": "mensajes anteriores",
        "period_day": "por día",
        "period_month": "por mes",
        "resets_daily": "por día",
        "resets_weekly": "por semana",
        "resets_monthly": "por mes",
        "the_image": "La imagen",
        "the_audio": "La grabación",
        "the_video": "El vídeo",
        "the_file": "El archivo",
        "unreadable_event": (
            "OpenRouter ha enviado algo que no forma parte de una respuesta. Inténtelo de nuevo."
        ),
        "unexpected_error": (
            "La pipe ha encontrado un error inesperado; los detalles están en el registro del servidor."
        ),
        "reasoning_rejected": "El proveedor no ha aceptado el razonamiento anterior; se responde sin él.",
        "context_shortened": "El proveedor ha contado más tokens de los que caben en su ventana de contexto.",
        "answer_not_saved": (
            "No se han podido guardar partes de esta respuesta; el chat seguirá sin su razonamiento."
        ),
        "answer_at_output_limit": (
            "La respuesta ha llegado al límite de salida. Pulse «Continuar Respuesta» o aumente max_tokens."
        ),
        "answer_at_output_limit.no_button": (
            "La respuesta ha llegado al límite de salida. Pida al modelo que continúe o aumente max_tokens."
        ),
        "answer_filtered": "El filtro de contenido del proveedor ha detenido la respuesta.",
        "answer_cut_off": (
            "El proveedor ha cortado la respuesta. Pulse «Continuar Respuesta» para obtener el resto."
        ),
        "answer_cut_off.no_button": "El proveedor ha cortado la respuesta. Pida al modelo que continúe.",
        "answer_empty": (
            "El modelo ha terminado sin dar una respuesta. Pregunte de nuevo o elija otro modelo."
        ),
        "no_encryption_key": (
            "El razonamiento y los resultados de herramientas no se guardan porque no hay clave para "
            "cifrarlos. Un administrador puede definirla en la válvula ARTIFACT_ENCRYPTION_KEY de la "
            "función."
        ),
        "attachment_not_stored": (
            "La imagen no se ha podido guardar entre los archivos de Open WebUI ({reason}); se queda en el "
            "propio chat."
        ),
        "attachment_damaged": "está dañada",
        "attachment_storage_failed": (
            "el almacenamiento ha fallado, los detalles están en el registro del servidor"
        ),
        "attachment_not_a_picture": (
            "El modelo ha enviado una imagen de un formato que no se muestra; sí se muestran PNG, JPEG, "
            "WebP y GIF."
        ),
        "artifacts_unavailable": (
            "No se han podido recargar {count} elementos guardados: la base de datos no está disponible."
        ),
        "artifacts_unavailable.one": (
            "No se ha podido recargar {count} elemento guardado: la base de datos no está disponible."
        ),
        "artifacts_missing": "No se han podido recargar {count} elementos guardados ({details}).",
        "artifacts_missing.one": "No se ha podido recargar {count} elemento guardado ({details}).",
        "artifacts_not_found": "ya no existen: {count}",
        "artifacts_unreadable": "cifrados con otra clave o dañados: {count}",
        "artifacts_too_large": "por encima del tamaño máximo: {count}",
        "reading_attachments": "Leyendo los adjuntos de este chat...",
        "attachments_read": "Se han leído los adjuntos.",
        "attachments_unread_image": "No se han enviado {count} imágenes: este modelo no lee imágenes.",
        "attachments_unread_image.one": "No se ha enviado {count} imagen: este modelo no lee imágenes.",
        "attachments_unread_audio": "No se han enviado {count} grabaciones: este modelo no lee audio.",
        "attachments_unread_audio.one": "No se ha enviado {count} grabación: este modelo no lee audio.",
        "attachments_unread_video": "No se han enviado {count} vídeos: este modelo no lee vídeo.",
        "attachments_unread_video.one": "No se ha enviado {count} vídeo: este modelo no lee vídeo.",
        "images_omitted": "El modelo ya no ve {count} imágenes anteriores.",
        "images_omitted.one": "El modelo ya no ve {count} imagen anterior.",
        "images_too_many": "No se han enviado {count} imágenes: en una petición caben como máximo {limit}.",
        "images_too_many.one": "No se ha enviado {count} imagen: en una petición caben como máximo {limit}.",
        "too_many_images": "en una petición caben como máximo {limit} imágenes",
        "attachments_omitted": (
            "Ya no se envían {count} adjuntos anteriores: todos juntos superan {megabytes:,.0f} MB."
        ),
        "attachments_omitted.one": (
            "Ya no se envía {count} adjunto anterior: todos juntos superan {megabytes:,.0f} MB."
        ),
        "attachments_too_large": (
            "No se han enviado {count} adjuntos: todos juntos superan {megabytes:,.0f} MB."
        ),
        "attachments_too_large.one": (
            "No se ha enviado {count} adjunto: todos juntos superan {megabytes:,.0f} MB."
        ),
        "too_large_together": "todos juntos superan {megabytes:,.0f} MB",
        "attachment_not_sent": "{name}: no se ha enviado ({reason}).",
        "attachment_kind": "este modelo no lee archivos del tipo {kind}",
        "attachment_unknown": "tipo de archivo desconocido",
        "attachment_unreadable": "no se puede leer",
        "attachment_too_large": "ocupa más de {megabytes:,.0f} MB",
        "document_as_excerpts": (
            "De {name}, este modelo solo recibe extractos elegidos por Open WebUI: {reason}."
        ),
        "no_api_key": (
            "No hay ninguna clave de API de OpenRouter. Un administrador puede definirla en la válvula "
            "API_KEY de la función."
        ),
        "no_api_key.admin": (
            "No hay ninguna clave de API de OpenRouter. Introduzca una en la válvula API_KEY de la función; "
            "las suyas están en https://openrouter.ai/settings/keys."
        ),
        "unusable_key": (
            "La clave de API de OpenRouter tiene caracteres que ninguna clave tiene. Un administrador puede "
            "corregir la válvula API_KEY de la función."
        ),
        "unusable_address": (
            "La dirección de OpenRouter no sirve. Un administrador puede corregir la válvula BASE_URL de la "
            "función."
        ),
        "not_openrouter": (
            "El servidor en la dirección de OpenRouter no es OpenRouter, o está averiado. Un administrador "
            "puede revisar la válvula BASE_URL de la función."
        ),
        "unreachable": (
            "No se ha podido conectar con OpenRouter: falla la conexión de este servidor o el propio "
            "OpenRouter. Inténtelo de nuevo dentro de un minuto."
        ),
        "unreachable.admin": (
            "No se ha podido conectar con OpenRouter: falla la conexión de este servidor o el propio "
            "OpenRouter. Si persiste, revise la red y el proxy del servidor, la válvula BASE_URL de la "
            "función y https://status.openrouter.ai."
        ),
        "no_response": (
            "OpenRouter no ha respondido en {seconds:.0f} segundos. Inténtelo de nuevo o elija otro modelo."
        ),
        "no_response.admin": (
            "OpenRouter no ha respondido en {seconds:.0f} segundos. Inténtelo de nuevo o elija otro modelo; "
            "la válvula ADVANCED de la función puede fijar cuánto se espera (REQUEST_TIMEOUT_SECONDS)."
        ),
        "stream_silent": (
            "OpenRouter no ha enviado nada durante {seconds:.0f} segundos, así que la respuesta termina "
            "aquí. Inténtelo de nuevo."
        ),
        "stream_lost": "Se ha perdido la conexión con OpenRouter durante la respuesta. Inténtelo de nuevo.",
        "stream_incomplete": (
            "OpenRouter ha terminado la respuesta antes de que estuviera completa. Inténtelo de nuevo."
        ),
        "wait_unknown": "Inténtelo de nuevo dentro de un momento",
        "wait_over": "Inténtelo de nuevo ahora",
        "wait_seconds": "Inténtelo de nuevo dentro de {count} segundos",
        "wait_seconds.one": "Inténtelo de nuevo dentro de {count} segundo",
        "wait_minutes": "Inténtelo de nuevo dentro de unos {count} minutos",
        "wait_tomorrow": "Inténtelo de nuevo mañana",
        "wait_hours": "Inténtelo de nuevo dentro de unas {count} horas",
        "quote": "Dijo: «{text}»",
        "a_provider": "El proveedor",
        "the_provider": "El proveedor {name}",
        "reasoning_not_accepted": (
            "El proveedor no ha aceptado el razonamiento anterior de este chat. Inténtelo de nuevo."
        ),
        "too_long": (
            "El chat es demasiado largo para este modelo. Acórtelo o elija un modelo con una ventana de "
            "contexto mayor."
        ),
        "too_long_numbers": (
            "El chat es demasiado largo para este modelo ({requested:,} tokens, el modelo admite "
            "{limit:,}). Acórtelo o elija un modelo con una ventana de contexto mayor."
        ),
        "provider_unavailable": "{provider} no está disponible en este momento. {wait} o elija otro modelo.",
        "provider_overloaded": "{provider} está sobrecargado en este momento. {wait} o elija otro modelo.",
        "provider_slow": "{provider} ha tardado demasiado en responder. {wait} o elija un modelo más rápido.",
        "provider_busy": (
            "{provider} recibe demasiadas peticiones en este momento. {wait} o elija otro modelo."
        ),
        "provider_busy.admin": (
            "{provider} recibe demasiadas peticiones en este momento. {wait} o elija otro modelo. Si ocurre "
            "a menudo, ayudan más créditos, una clave del propio proveedor en OpenRouter o modelos de "
            "respaldo. {quote}"
        ),
        "free_daily_limit": (
            "Se ha alcanzado el límite diario de los modelos gratuitos de OpenRouter. {wait} o elija un "
            "modelo de pago."
        ),
        "free_daily_limit.admin": (
            "Se ha alcanzado el límite diario de los modelos gratuitos de OpenRouter. {wait} o elija un "
            "modelo de pago; los créditos de https://openrouter.ai/settings/credits elevan el límite."
        ),
        "free_limit": (
            "Se ha alcanzado el límite por minuto de los modelos gratuitos de OpenRouter. {wait} o elija un "
            "modelo de pago."
        ),
        "model_not_found": "OpenRouter no conoce este modelo. Elija otro.",
        "model_deprecated": "OpenRouter ya no ofrece este modelo. Elija otro.",
        "free_variant_ended": (
            "La variante gratuita de este modelo ya no existe. Elija la de pago u otro modelo."
        ),
        "region_restricted": "Este modelo no se ofrece en su región. Elija otro.",
        "privacy_restricted": (
            "Ningún proveedor de este modelo cumple los ajustes de privacidad de la cuenta. Elija otro "
            "modelo."
        ),
        "privacy_restricted.admin": (
            "Ningún proveedor de este modelo cumple los ajustes de privacidad de la cuenta. Elija otro "
            "modelo o cámbielos en https://openrouter.ai/settings/privacy."
        ),
        "constraint_filtered": (
            "Ningún proveedor de este modelo cumple los requisitos de la petición. Elija otro modelo."
        ),
        "constraint_filtered.admin": (
            "Ningún proveedor de este modelo cumple los requisitos de la petición. Elija otro modelo o "
            "relaje los ajustes de proveedores del modelo."
        ),
        "no_endpoint": "Ningún proveedor de este modelo puede atender esta petición. {quote}",
        "no_tool_provider": (
            "Ningún proveedor de este modelo admite herramientas. Desactive las herramientas o elija otro "
            "modelo."
        ),
        "no_attachment_provider": (
            "Ningún proveedor de este modelo lee este tipo de adjunto. Quítelo o elija otro modelo."
        ),
        "no_allowed_provider": "Este modelo no está disponible con los ajustes de este servidor. Elija otro.",
        "no_allowed_provider.admin": (
            "Los ajustes de proveedores excluyen a todos los proveedores de este modelo. Elija otro modelo "
            "o relaje los ajustes del modelo o de la cuenta de OpenRouter."
        ),
        "moderated": "La moderación ha rechazado el mensaje. Formúlelo de otra manera o elija otro modelo.",
        "moderated_reasons": (
            "La moderación ha rechazado el mensaje ({reasons}). Formúlelo de otra manera o elija otro modelo."
        ),
        "key_rejected": (
            "OpenRouter no ha aceptado la clave de API de este servidor. Avise a su administrador."
        ),
        "key_rejected.admin": (
            "OpenRouter no ha aceptado la clave de API. Revise la válvula API_KEY de la función: las claves "
            "válidas están en https://openrouter.ai/settings/keys."
        ),
        "no_credits": (
            "La cuenta de OpenRouter no tiene créditos suficientes para esta petición. Avise a su "
            "administrador; quizá aún sea posible una respuesta más corta o un modelo más barato."
        ),
        "no_credits.admin": (
            "La cuenta de OpenRouter no tiene créditos suficientes para esta petición. Añada créditos en "
            "https://openrouter.ai/settings/credits o reduzca max_tokens."
        ),
        "no_credits_numbers": (
            "La cuenta de OpenRouter no tiene créditos suficientes para esta petición (se han pedido hasta "
            "{requested:,} tokens, se pueden pagar {affordable:,}). Avise a su administrador; quizá aún sea "
            "posible una respuesta más corta o un modelo más barato."
        ),
        "no_credits_numbers.admin": (
            "La cuenta de OpenRouter no tiene créditos suficientes para esta petición (se han pedido hasta "
            "{requested:,} tokens, se pueden pagar {affordable:,}). Añada créditos en "
            "https://openrouter.ai/settings/credits o reduzca max_tokens."
        ),
        "access_denied": (
            "OpenRouter ha denegado esta petición. Elija otro modelo o avise a su administrador. {quote}"
        ),
        "access_denied.admin": (
            "OpenRouter ha denegado esta petición. Revise los límites de uso (guardrails) de la cuenta y "
            "los permisos de la clave en https://openrouter.ai/settings. {quote}"
        ),
        "request_too_large": (
            "La petición es demasiado grande para enviarla. Quite o reduzca adjuntos, o empiece un chat "
            "nuevo."
        ),
        "request_rejected": (
            "El proveedor ha rechazado la petición; enviarla otra vez sin cambios no servirá. Cámbiela o "
            "elija otro modelo. {quote}"
        ),
        "provider_error": (
            "OpenRouter ha respondido con un error. Inténtelo de nuevo o elija otro modelo. {quote}"
        ),
        "key_limit_reached": (
            "Se ha alcanzado el límite de gasto de la clave de OpenRouter de este servidor. Avise a su "
            "administrador."
        ),
        "key_limit_reached.admin": (
            "Se ha alcanzado el límite de gasto de la clave de OpenRouter. Auméntelo en "
            "https://openrouter.ai/settings/keys."
        ),
        "image_unusable": (
            "El proveedor no puede usar una imagen de este chat. Quítela o adjúntela en otro formato o "
            "tamaño. {quote}"
        ),
        "output_too_long": (
            "La petición exige una respuesta más larga de lo que el modelo puede escribir. Reduzca "
            "max_tokens. {quote}"
        ),
        "model_refused": (
            "El modelo se ha negado a responder. Formule el mensaje de otra manera o elija otro modelo."
        ),
        "data_residency": (
            "Las reglas de la cuenta sobre dónde se pueden procesar los datos excluyen este modelo. Elija "
            "otro."
        ),
        "data_residency.admin": (
            "Las reglas de la cuenta sobre dónde se pueden procesar los datos excluyen este modelo. Elija "
            "otro o cámbielas en https://openrouter.ai/settings/privacy."
        ),
        "effort_rejected": "El modelo no conoce este esfuerzo de razonamiento. Elija otro. {quote}",
        "parameter_rejected": (
            "El modelo no admite uno de los parámetros de la petición. Quítelo de los controles del chat. "
            "{quote}"
        ),
        "effort_replaced": (
            "El modelo no conoce el esfuerzo de razonamiento `{asked}`; se ha preguntado de nuevo con "
            "`{used}`."
        ),
        "effort_omitted": (
            "El modelo no conoce el esfuerzo de razonamiento `{asked}`; se ha preguntado de nuevo sin él."
        ),
        "parameter_omitted": "El modelo no admite el parámetro {name}; se ha preguntado de nuevo sin él.",
        "retry_busy": "El proveedor está ocupado; nuevo intento en {seconds} s ({attempt} de {attempts})...",
        "retry_unavailable": (
            "El proveedor no está disponible; nuevo intento en {seconds} s ({attempt} de {attempts})..."
        ),
        "retry_unreachable": (
            "No se puede conectar con OpenRouter; nuevo intento en {seconds} s ({attempt} de {attempts})..."
        ),
        "retry_lost": (
            "La respuesta de OpenRouter se ha interrumpido; nuevo intento en {seconds} s ({attempt} de "
            "{attempts})..."
        ),
        "retrying": "Se ha preguntado de nuevo ({attempt} de {attempts}).",
        "address_paused": (
            "No se puede conectar con OpenRouter en este momento. El próximo intento será posible en "
            "{seconds:.0f} segundos; espere hasta entonces."
        ),
        "address_paused.admin": (
            "No se ha podido conectar con OpenRouter {failures} veces seguidas. El próximo intento será "
            "posible en {seconds:.0f} segundos. Si persiste, revise la red y el proxy del servidor, la "
            "válvula BASE_URL de la función y https://status.openrouter.ai."
        ),
        "waiting_for_place": "Hay muchas peticiones en curso; esta espera su turno...",
        "place_found": "La espera ha terminado.",
        "queue_full": (
            "Este servidor está ocupado: hay demasiadas peticiones en espera. Inténtelo de nuevo dentro de "
            "un minuto."
        ),
        "queue_full.admin": (
            "Hay demasiadas peticiones en espera en este servidor. La válvula ADVANCED de la función puede "
            "fijar cuántas se ejecutan (MAX_REQUESTS, MAX_REQUESTS_PER_USER)."
        ),
        "queue_slow": (
            "Este servidor está ocupado: la petición ha esperado {seconds:.0f} segundos a que terminaran "
            "otras. Inténtelo de nuevo más tarde."
        ),
        "queue_slow.admin": (
            "La petición ha esperado {seconds:.0f} segundos a que terminaran otras. La válvula ADVANCED de "
            "la función puede fijar cuántas se ejecutan (MAX_REQUESTS, MAX_REQUESTS_PER_USER)."
        ),
        "with_reference": "{line} (referencia {reference})",
        "no_provider_left": (
            "Los ajustes de proveedores del modelo y los del administrador se excluyen entre sí, de modo "
            "que no queda ningún proveedor. Elija otro modelo; un administrador puede relajar los ajustes."
        ),
        "own_key_rejected": (
            "OpenRouter no ha aceptado su propia clave de API. Corríjala o quítela en sus válvulas "
            "(Controles → Válvulas)."
        ),
        "own_key_without_credits": (
            "Su propia cuenta de OpenRouter no tiene créditos suficientes para esta petición. Añada "
            "créditos en https://openrouter.ai/settings/credits o quite su clave de API en sus válvulas "
            "(Controles → Válvulas)."
        ),
        "own_key_unreadable": (
            "Su propia clave de API no se puede leer: se cifró para otro usuario, o la clave secreta del "
            "servidor ha cambiado. Introdúzcala de nuevo, o quítela, en sus válvulas (Controles → Válvulas)."
        ),
        "search_keeps_data": (
            "No se busca en la web: si nadie debe conservar datos, solo puede buscar el propio proveedor "
            "del modelo, y este no tiene búsqueda."
        ),
        "searching": "Buscando en la web...",
        "searched": "Se ha buscado en la web.",
        "searched_for": "Buscado en la web: {query}",
        "search_failed": "La búsqueda no ha dado resultado.",
        "reading_page": "Leyendo una página web...",
        "page_read": "Página leída: {url}",
        "status_ready_advice": "Todo está en orden. Elija uno de los modelos.",
        "status_no_key_advice": (
            "No hay ninguna clave de API. Cree una en https://openrouter.ai/settings/keys. Defínala como "
            "`API_KEY` en Administración → Funciones → la rueda dentada de esta función, o como variable de "
            "entorno `OPENROUTER_API_KEY` del servidor."
        ),
        "status_key_unusable_advice": (
            "`API_KEY` en las válvulas tiene caracteres que ninguna clave tiene. Copie la clave otra vez, "
            "entera y sin comillas."
        ),
        "status_key_refused_advice": (
            "OpenRouter rechaza la clave de API: está mal escrita, desactivada o eliminada. Revísela en "
            "https://openrouter.ai/settings/keys y defina `API_KEY` de nuevo en las válvulas."
        ),
        "status_key_used_up_advice": (
            "No queda nada del límite de la clave de API. Auméntelo en https://openrouter.ai/settings/keys "
            "o defina otra clave."
        ),
        "status_address_advice": (
            "`BASE_URL` en las válvulas no es una dirección: empieza por https:// o http:// y el nombre de "
            "un servidor. El valor predeterminado es https://openrouter.ai/api/v1."
        ),
        "status_not_openrouter_advice": (
            "Lo que responde en `BASE_URL` en las válvulas no tiene lista de modelos, así que no es la API "
            "de OpenRouter. El valor predeterminado es https://openrouter.ai/api/v1; hace falta la ruta "
            "completa."
        ),
        "status_unreachable_advice": (
            "No se puede conectar con OpenRouter desde {since}. Revise `BASE_URL` en las válvulas y si este "
            "servidor puede conectarse: red, DNS, proxy, cortafuegos. Los detalles están en el registro del "
            "servidor. Se vuelve a intentar automáticamente."
        ),
        "status_failing_advice": (
            "OpenRouter responde con errores desde {since}. Los detalles están en el registro del servidor, "
            "y https://status.openrouter.ai dice si hay una avería. Se vuelve a intentar automáticamente."
        ),
        "status_loading_advice": "La lista de modelos está en camino. Recargue la página en un momento.",
        "status_unmatched_advice": (
            "Ningún modelo coincide con los patrones de `MODELS` en las válvulas; `*` ofrece todos los "
            "modelos."
        ),
        "status_filtered_advice": (
            "De los modelos que ofrece `MODELS` en las válvulas, ninguno cumple todos los `MODEL_FILTERS`."
        ),
        "status_unknown_filter_advice": (
            "`MODEL_FILTERS` en las válvulas tiene palabras desconocidas, y no se ofrece ningún modelo "
            "hasta que se corrija: {words}. Admite `free`, `tools`, `vision`, `zdr`, `newest`, "
            "`no-expiring`, `context>=128k` y `price<=2`, separados por comas."
        ),
        "status_zdr_unknown_advice": (
            "Aún no se sabe qué modelos no conservan datos. Con `zdr` en `MODEL_FILTERS` no se ofrece "
            "ningún modelo hasta que se haya leído la lista de OpenRouter; el registro del servidor dice "
            "por qué no se ha podido. Se vuelve a intentar automáticamente."
        ),
        "status_unknown_variant_advice": (
            "`VARIANTS` en `ADVANCED` tiene entradas que no son variantes: {words}. Admite patrones con una "
            "variante o un ajuste predefinido, como `openai/gpt-5*:nitro`, `anthropic/*@preset/team` o "
            "`@preset/team`. Las demás se ofrecen."
        ),
        "status_models": "Se ofrecen {count:,} modelos.",
        "status_models.one": "Se ofrece {count:,} modelo.",
        "status_for_users_ready": "OpenRouter está listo. Elija uno de sus modelos.",
        "status_for_users_wait": (
            "OpenRouter no se puede usar en este momento. Inténtelo de nuevo dentro de unos minutos."
        ),
        "status_for_users_ask": (
            "OpenRouter no se puede usar actualmente. Un administrador tiene que configurarlo; pídaselo."
        ),
        "key_used": (
            "La clave de API ha gastado {total:,.2f} US$: {month:,.2f} US$ este mes, {today:,.2f} US$ hoy."
        ),
        "key_limit": "Su límite es de {limit:,.2f} US$; quedan {remaining:,.2f} US$.",
        "key_limit_resets": "Su límite es de {limit:,.2f} US$ ({period}); quedan {remaining:,.2f} US$.",
        "key_without_limit": "No tiene límite propio; la limitan los créditos de la cuenta.",
        "key_free_tier": (
            "Aún no se han comprado créditos: solo se pueden usar modelos gratuitos, con pocas peticiones "
            "al día. Los créditos están en https://openrouter.ai/settings/credits."
        ),
        "key_expires": "Caduca el {time}.",
        "no_messages": "Esta petición no tiene mensajes legibles.",
        "no_model": "Esta petición no nombra ningún modelo.",
        "parameters_omitted": (
            "Omitido de sus peticiones, porque el administrador no permite a los usuarios ajustarlo: {names}."
        ),
        "download_address_refused": "la dirección no está permitida",
        "download_unreachable": "no se ha podido conectar con el servidor",
        "download_refused": "el servidor ha respondido con el estado {status}",
        "download_broken": "se ha perdido la conexión",
        "download_compressed": "el servidor lo ha enviado comprimido",
        "download_redirects": "la dirección redirige demasiadas veces",
        "download_too_slow": "ha tardado más de {seconds:,.0f} segundos",
        "file_not_found": "no existe ese archivo, o usted no puede leerlo",
        "file_content_missing": "el almacenamiento de Open WebUI ya no tiene su contenido",
        "file_unreadable": "no se ha podido leer el almacenamiento de Open WebUI",
        "file_not_stored": "el almacenamiento de Open WebUI no ha aceptado el archivo",
        "limits_unreadable": (
            "No es posible chatear: un administrador tiene que corregir la válvula SPENDING_LIMITS de la "
            "función, de la que no se puede leer esta parte: {part}"
        ),
        "limits_unreadable_admin": (
            "Los usuarios no pueden chatear, porque no se puede leer esta parte de la válvula "
            "SPENDING_LIMITS de la función: {part}"
        ),
        "limits_unavailable": (
            "No se ha enviado nada: los límites de gasto no se pueden comprobar porque la base de datos no "
            "está disponible. Inténtelo de nuevo."
        ),
        "limit_reached": "{whose} de {amount} {period} está agotado, hasta: {when}. No se ha enviado nada.",
        "limit_near": (
            "{whose} de {amount} {period} está casi agotado, hasta: {when}. Los chats largos se acortan "
            "para que cuesten menos."
        ),
        "limit_in_use": (
            "No se ha enviado nada: otras peticiones usan lo que queda del límite de gasto. Inténtelo de "
            "nuevo cuando se hayan respondido."
        ),
        "task_of_declined": "No enviado: el mensaje de este chat tampoco se ha enviado.",
        "limit_waiting": "Queda poco del límite de gasto; esperando a otras respuestas...",
        "limit_of_user": "Su límite de gasto",
        "limit_of_group": "El límite de gasto del grupo {group}",
        "limit_of_all": "El límite de gasto de todos los usuarios",
        "confirm_title": "¿Enviar por unos {cost}?",
        "confirm_cost": (
            "Para este mensaje el modelo lee unos {tokens:,} tokens, ninguno de ellos de la caché del "
            "proveedor. Eso cuesta unos {cost}; la respuesta se suma. Cancelar no envía nada y no cuesta "
            "nada."
        ),
        "confirm_cost_cached": (
            "Para este mensaje el modelo lee unos {tokens:,} tokens, {cached:,} de ellos de la caché del "
            "proveedor. Eso cuesta unos {cost}; la respuesta se suma. Cancelar no envía nada y no cuesta "
            "nada."
        ),
        "confirm_switch": (
            "{earlier} aún tiene este chat en su caché: allí este mensaje cuesta unos {cached}. {model} "
            "tiene que leerlo todo por unos {cost}; la respuesta se suma. Cancelar no envía nada y no "
            "cuesta nada."
        ),
        "declined": "No enviado: usted no ha aceptado unos {cost}. No se ha cobrado nada.",
        "cost_line": "{line}",
        "cost_input": "{tokens:,} tokens de entrada",
        "cost_input_cached": "{tokens:,} tokens de entrada ({cached:,} en caché)",
        "cost_output": "{tokens:,} de salida",
        "cost_seconds": "{seconds:,.1f} s",
        "cost_speed": "{speed:,.0f} tok/s",
        "next_cost": "próximo mensaje desde {cost}",
        "next_cost_until": "próximo mensaje desde {cached} ({cold} después de: {when})",
        "tomorrow_at": "mañana a las {clock}",
        "on_day_at": "{day} a las {clock}",
        "reasoning_disabled": (
            "El razonamiento no se guarda: el administrador lo ha desactivado, diga lo que diga su propio "
            "ajuste."
        ),
        "user_limits_not_followed": (
            "Algunos de sus ajustes no tienen efecto, porque el administrador no permite a los usuarios "
            "definirlos: {names}."
        ),
        "user_valves_lost": (
            "No se ha enviado nada, porque algunos de sus ajustes no se pueden leer, entre ellos quién "
            "puede conservar o pagar sus chats: {names}. Defínalos de nuevo en sus válvulas (Controles → "
            "Válvulas) y guarde."
        ),
        "user_valves_unreadable": (
            "Algunos de sus ajustes no se pueden leer y no tienen efecto: {names}. Defínalos de nuevo en "
            "sus válvulas (Controles → Válvulas)."
        ),
        "valves_not_saved": "No se ha guardado. {problems}.",
        "valves_lost": (
            "No se ha enviado nada, porque no se pueden leer ajustes que protegen los chats o limitan lo "
            "que cuestan: {names}. Un administrador tiene que definirlos de nuevo en las válvulas de la "
            "función."
        ),
        "summary_failure_empty": "la respuesta del modelo estaba vacía",
        "summary_failure_malformed": "la respuesta del modelo no tenía la forma esperada",
        "summary_failure_longer_than_its_source": "el resumen era más largo que lo que resume",
        "summary_failure_repeats_its_prompt": "el modelo ha repetido sus instrucciones",
        "summary_failure_cut_off": "la respuesta del modelo se ha cortado",
        "summary_failure_calls_a_tool": "el modelo ha llamado a una herramienta",
        "summary_failure_reasoning_only": "el modelo solo ha razonado y no ha respondido",
        "summary_failure_refused": "el modelo se ha negado",
        "summary_failure_not_grounded": "el resumen contenía detalles que no están en el chat",
        "summary_failure_no_content": "la respuesta del modelo no decía nada",
        "summary_failure_too_short": "el resumen era demasiado corto",
        "summary_failure_not_about_its_source": "el resumen no trataba del chat",
        "summary_failure_timed_out": "el modelo ha tardado demasiado",
        "summary_failure_claimed_elsewhere": "otro proceso del servidor ya lo está haciendo",
        "summary_failure_database_unavailable": "la base de datos no está disponible",
        "summary_failure_provider": "el proveedor ha respondido con un error",
        "summary_failure_unexpected_error": "error inesperado",
        "window_too_small": (
            "La ventana de contexto del modelo, de {window_tokens:,} tokens, no deja espacio para ninguna "
            "entrada."
        ),
        "window_too_small_advice": "Elija un modelo con una ventana de contexto mayor.",
        "overflow": (
            "Esta petición necesita unos {needed_tokens:,} tokens, pero junto a la respuesta solo caben "
            "{limit_tokens:,} en la ventana de contexto del modelo, que tiene {window_tokens:,}."
        ),
        "overflow_largest": "La parte más grande que puede cambiar: {largest}, {tokens:,} tokens.",
        "overflow_instructions": (
            "Acorte el prompt del sistema o elija un modelo con una ventana de contexto mayor."
        ),
        "overflow_tools": "Desactive las herramientas que este chat no necesita.",
        "overflow_summaries": "Empiece un chat nuevo.",
        "overflow_retrieved_text": "Adjunte menos documentos o pida menos fuentes.",
        "overflow_note": "Empiece un chat nuevo.",
        "overflow_latest_message": "Acorte su mensaje o sus adjuntos, o envíelos por partes.",
        "overflow_current_tool_calls": "Pida menos cosas a la vez, para que se llamen menos herramientas.",
        "overflow_earlier_turns": (
            "Empiece un chat nuevo o elija un modelo con una ventana de contexto mayor."
        ),
        "turns_omitted": (
            "Se han omitido {count} de {of} mensajes anteriores con sus respuestas: unos {tokens:,} tokens."
        ),
        "turns_omitted.one": (
            "Se ha omitido {count} de {of} mensajes anteriores con su respuesta: unos {tokens:,} tokens."
        ),
        "turns_clipped": "Al modelo solo se envían los últimos {count} mensajes de este chat.",
        "turns_clipped.one": "Al modelo solo se envía el último mensaje de este chat.",
        "turns_shortened": (
            "Se han acortado {count} de {of} mensajes anteriores con sus respuestas: unos {tokens:,} tokens "
            "menos."
        ),
        "turns_shortened.one": (
            "Se ha acortado {count} de {of} mensajes anteriores con su respuesta: unos {tokens:,} tokens "
            "menos."
        ),
        "results_stated": (
            "{count} resultados de herramientas se han reducido a sus datos clave: unos {tokens:,} tokens "
            "menos."
        ),
        "results_stated.one": (
            "{count} resultado de herramienta se ha reducido a sus datos clave: unos {tokens:,} tokens menos."
        ),
        "results_capped": (
            "{count} resultados largos de herramientas se han reducido a su principio y su final: unos "
            "{tokens:,} tokens menos."
        ),
        "results_capped.one": (
            "{count} resultado largo de herramienta se ha reducido a su principio y su final: unos "
            "{tokens:,} tokens menos."
        ),
        "retrieved_cut": (
            "Del texto recuperado solo ha quedado el principio: se han omitido unos {tokens:,} de sus "
            "{of:,} tokens."
        ),
        "retrieved_omitted": "Se ha omitido el texto recuperado: unos {tokens:,} tokens.",
        "tools_omitted": (
            "Se han omitido {count} herramientas integradas de Open WebUI para caber en la ventana de "
            "contexto del modelo: unos {tokens:,} tokens. Un administrador puede desactivarlas para este "
            "modelo."
        ),
        "tools_omitted.one": (
            "Se ha omitido {count} herramienta integrada de Open WebUI para caber en la ventana de contexto "
            "del modelo: unos {tokens:,} tokens. Un administrador puede desactivarla para este modelo."
        ),
        "summarizing": "Resumiendo el chat ({tokens:,} tokens)...",
        "summarized": "Resumido: {before_tokens:,} → {after_tokens:,} tokens",
        "summarized_cost": "{line} ({cost})",
        "summarized_partly": "{line}; una parte no se ha podido resumir: {reason}.",
        "not_summarized": "No se ha podido resumir el chat: {reason}.",
        "help_title": (
            "Escriba uno de estos comandos solo en un mensaje. Se responde aquí, sin modelo, y "
            "ningún modelo lo ve."
        ),
        "help_context": "`/context`: de qué se compone la próxima petición y lo que ha costado este chat.",
        "help_compact": (
            "`/compact`, o `/compact what to keep` (lo que se debe conservar): resume ahora todo menos los "
            "últimos mensajes; es el único comando que cuesta algo."
        ),
        "help_restore": (
            "`/restore`, o `/restore 3-8`: envía de nuevo mensajes anteriores palabra por palabra."
        ),
        "help_discard": (
            "`/discard`, o `/discard 3-8`: hace que se escriban de nuevo los resúmenes de mensajes "
            "anteriores."
        ),
        "help_aim": (
            "`/aim faithful` envía todo lo que quepa del chat, `/aim thrifty` lo que menos cuesta; a partir "
            "de ahora, en este chat."
        ),
        "help_aim_now": "Este chat se envía con el objetivo `{aim}`.",
        "help_drawing": (
            "Este modelo solo dibuja: `/compact` necesita otro modelo en la válvula SUMMARY_MODEL, y los "
            "demás comandos valen."
        ),
        "command_misused": "`/{name}` no se puede usar así. {usage}",
        "aim_set": "A partir de ahora este chat sigue el objetivo `{aim}`.",
        "aim_kept": "Este chat ya sigue el objetivo `{aim}`.",
        "compact_waiting": "{line} Esto tarda hasta {seconds:.0f} segundos.",
        "compact_done": (
            "Los primeros {count} mensajes se han resumido con sus respuestas: la próxima petición tiene "
            "unos {after:,} tokens en lugar de {before:,}."
        ),
        "compact_done.one": (
            "El primer mensaje se ha resumido con su respuesta: la próxima petición tiene unos {after:,} "
            "tokens en lugar de {before:,}."
        ),
        "compact_done_again": (
            "Los primeros {count} mensajes se han resumido con sus respuestas: la próxima petición "
            "tiene unos {after:,} tokens."
        ),
        "compact_done_again.one": (
            "El primer mensaje se ha resumido con su respuesta: la próxima petición tiene unos "
            "{after:,} tokens."
        ),
        "compact_cost": "Los resúmenes han costado {cost}.",
        "compact_kept": "Los resúmenes ya existían y no han costado nada.",
        "compact_failed": (
            "No se ha escrito el resumen: {reason}. El próximo mensaje lo intentará de nuevo; `/restore` "
            "anula el comando."
        ),
        "compact_too_short": (
            "No se ha resumido nada: lo que precede a los últimos mensajes es demasiado corto o ya está "
            "resumido."
        ),
        "compact_off": (
            "No se ha resumido nada: los resúmenes están desactivados aquí. Un administrador puede poner la "
            "válvula CONTEXT_STRATEGY en `summarize`."
        ),
        "restored": (
            "A partir de ahora se envían de nuevo palabra por palabra: mensajes {turns}. Una petición tiene "
            "entonces unos {after:,} tokens en lugar de {before:,}."
        ),
        "restored_partly": "Junto a ellos no hay espacio para los mensajes {turns}.",
        "restore_nothing": "Todos estos mensajes ya se envían palabra por palabra.",
        "restore_no_room": (
            "No hay espacio para los mensajes {turns} palabra por palabra. Indique menos, o elija un "
            "modelo con una ventana mayor."
        ),
        "no_such_turns": "Este chat no tiene esos mensajes: tiene {turns}.",
        "discarded": "Se han descartado {count} resúmenes. Con el próximo mensaje se escribirán de nuevo.",
        "discarded.one": "Se ha descartado {count} resumen. Con el próximo mensaje se escribirá de nuevo.",
        "discard_nothing": "Ningún resumen sustituye a estos mensajes.",
        "context_title": "La próxima petición a {model}",
        "context_window": (
            "Unos {tokens:,} de {window_tokens:,} tokens, {share:.0%} de la ventana de contexto."
        ),
        "context_window_unknown": (
            "Unos {tokens:,} tokens; no se sabe qué tamaño tiene la ventana de contexto del modelo."
        ),
        "context_aim_faithful": "El objetivo es `faithful`: se envía todo lo que quepa del chat.",
        "context_aim_thrifty": "El objetivo es `thrifty`: se envía lo que menos cuesta.",
        "context_part": "Parte",
        "context_tokens": "Tokens",
        "context_share": "Proporción",
        "context_part_system": "Prompt del sistema y fuentes",
        "context_part_tools": "Herramientas",
        "context_part_summaries": "Resúmenes",
        "context_part_shortened": "Mensajes acortados",
        "context_part_recalled": "Pasajes consultados",
        "context_part_verbatim": "Mensajes palabra por palabra",
        "context_part_attachments": "Adjuntos",
        "context_part_reserve": "Reservado para la respuesta",
        "context_turn": "Mensaje",
        "context_wrote": "Lo que usted escribió",
        "context_sent": "Enviado",
        "context_original": "De",
        "context_state": "Estado",
        "context_cached": "En caché",
        "context_state_verbatim": "palabra por palabra",
        "context_state_shortened": "acortado",
        "context_state_summarized": "resumido",
        "context_state_dropped": "omitido",
        "context_yes": "sí",
        "context_no": "no",
        "context_earlier_turns": "{count} mensajes anteriores",
        "context_earlier_turns.one": "{count} mensaje anterior",
        "context_cost": "Este chat ha costado {cost} hasta ahora, en {count} peticiones.",
        "context_cost.one": "Este chat ha costado {cost} hasta ahora, en {count} petición.",
        "context_read": "{share:.0%} de su entrada se ha leído de la caché del proveedor, por {cost}.",
        "context_saved": "Enviar todo el chat sin caché habría costado {cost} más.",
        "context_breaks": "Lo que ha hecho que el proveedor lea el chat de nuevo, lo más reciente primero:",
        "context_break_turn": "mensaje {turn}",
        "context_break_start": "antes del primer mensaje",
        "context_cause_retention": "se acortaron resultados antiguos de herramientas",
        "context_cause_clip": "solo se envían los últimos mensajes",
        "context_cause_summary": "se resumieron mensajes antiguos",
        "context_cause_prune": "se acortaron mensajes antiguos",
        "context_cause_evict": "se omitieron mensajes antiguos",
        "context_cause_recall": "se añadió la herramienta que consulta lo retirado",
        "context_cause_restore": "se restauraron mensajes, o ya no cabían",
        "context_cause_discard": "se descartaron resúmenes",
        "context_cause_clock": "cambió una hora o un número en el prompt del sistema",
        "context_cause_memory": "cambiaron las memorias de Open WebUI",
        "context_cause_prompt": "cambió el prompt del sistema",
        "context_cause_tools": "cambiaron las herramientas",
        "context_cause_settings": "cambió un parámetro",
        "context_cause_reasoning": "cambió el razonamiento de respuestas anteriores",
        "context_cause_results": "cambiaron resultados anteriores de herramientas",
        "context_cause_attachments": "cambiaron adjuntos anteriores",
        "context_cause_sources": "cambió el texto recuperado",
        "context_cause_edit": "se modificaron mensajes anteriores",
        "context_cause_plan": "los mensajes anteriores se acortan de otra manera que antes",
        "context_cause_unknown": "no se conoce el motivo",
        "context_summary": (
            "Resumen de los mensajes {first} a {last}: {tokens:,} tokens en lugar de {source_tokens:,}"
        ),
        "context_summary_missing": "Con el próximo mensaje se resumirán los mensajes {first} a {last}.",
        "context_as_text": "Lo mismo como texto",
        "context_hint": (
            "`/restore 3-8` envía de nuevo mensajes palabra por palabra, `/discard 3-8` hace que se escriba "
            "de nuevo su resumen; `/help` muestra todos los comandos."
        ),
        "context_hint_help": "`/help` muestra todos los comandos.",
        "context_page_language": "es",
        "context_page_number": "{number:,}",
        "context_page_share": "{share:.1%}",
        "context_page_amount": "{amount}",
        "context_page_over": "{count:,} tokens más de los que caben en la ventana de contexto.",
        "context_page_over.one": "{count:,} token más de los que caben en la ventana de contexto.",
        "context_page_free": "Libre",
        "context_page_turns": "Mensajes, en tokens",
        "context_page_no_turns": "Este chat aún no tiene mensajes.",
        "context_page_cost": "Coste",
        "context_page_breaks": "Lo que ha roto la caché",
        "context_page_no_breaks": "Nada hasta ahora.",
        "context_page_cause": "Motivo",
        "context_page_planned": "Previsto",
        "context_page_uncounted": "sin contar",
        "context_page_summaries": "Resúmenes",
        "context_page_summary": "Mensajes {first} a {last}",
        "context_page_summary_of_turn": "Mensaje {turn}",
        "context_page_summary_size": "{tokens:,} tokens en lugar de {source_tokens:,}",
        "context_page_restore": "Restaurar",
        "context_page_discard": "Descartar",
        "context_page_commands": (
            "«Restaurar» envía de nuevo estos mensajes palabra por palabra, «Descartar» hace que se escriba "
            "de nuevo el resumen. También puede escribir `{restore}` o `{discard}`."
        ),
    }
)
SPANISH: Final = Language(
    "es",
    _LINES,
    decimal=",",
    thousands=".",
    day="{day} de {month}",
    months=(
        *("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio"),
        *("agosto", "septiembre", "octubre", "noviembre", "diciembre"),
    ),
)
