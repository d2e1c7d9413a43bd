"""French, in the formal address. No-break spaces stand before colons and within quotation marks, as French has them."""
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
        "dollars": "{amount:,.{decimals}f} $US",
        "part_instructions": "instructions",
        "part_tools": "outils",
        "part_summaries": "résumés",
        "part_retrieved_text": "texte récupéré",
        "part_note": "note sur les messages omis",
        "part_latest_message": "dernier message",
        "part_current_tool_calls": "appels d'outils en cours",
        "part_earlier_turns": "messages précédents",
        "period_day": "par jour",
        "period_month": "par mois",
        "resets_daily": "par jour",
        "resets_weekly": "par semaine",
        "resets_monthly": "par mois",
        "the_image": "L'image",
        "the_audio": "L'enregistrement",
        "the_video": "La vidéo",
        "the_file": "Le fichier",
        "unreadable_event": (
            "OpenRouter a envoyé quelque chose qui ne fait pas partie d'une réponse. Veuillez réessayer."
        ),
        "unexpected_error": (
            "La pipe a rencontré une erreur inattendue ; les détails sont dans le journal du serveur."
        ),
        "reasoning_rejected": (
            "Le fournisseur n'a pas accepté le raisonnement précédent ; la réponse se fait sans lui."
        ),
        "context_shortened": (
            "Le fournisseur a compté plus de tokens que sa fenêtre de contexte n'en contient."
        ),
        "answer_not_saved": (
            "Des parties de cette réponse n'ont pas pu être enregistrées ; la suite se fera sans son "
            "raisonnement."
        ),
        "answer_at_output_limit": (
            "La réponse s'est arrêtée à la limite de sortie. Cliquez sur « Continuer la réponse » ou "
            "augmentez max_tokens."
        ),
        "answer_at_output_limit.no_button": (
            "La réponse s'est arrêtée à la limite de sortie. Demandez au modèle de continuer ou augmentez "
            "max_tokens."
        ),
        "answer_filtered": "Le filtre de contenu du fournisseur a arrêté la réponse.",
        "answer_cut_off": (
            "Le fournisseur a interrompu la réponse. Cliquez sur « Continuer la réponse » pour obtenir la "
            "suite."
        ),
        "answer_cut_off.no_button": (
            "Le fournisseur a interrompu la réponse. Demandez au modèle de continuer."
        ),
        "answer_empty": (
            "Le modèle a terminé sans donner de réponse. Posez la question à nouveau ou choisissez un autre "
            "modèle."
        ),
        "no_encryption_key": (
            "Le raisonnement et les résultats d'outils ne sont pas conservés, faute de clé pour les "
            "chiffrer. Un administrateur peut la définir dans la vanne ARTIFACT_ENCRYPTION_KEY de la "
            "fonction."
        ),
        "attachment_not_stored": (
            "L'image n'a pas pu être enregistrée parmi les fichiers d'Open WebUI ({reason}) ; elle reste "
            "dans la conversation elle-même."
        ),
        "attachment_damaged": "elle est endommagée",
        "attachment_storage_failed": "le stockage a échoué, les détails sont dans le journal du serveur",
        "attachment_not_a_picture": (
            "Le modèle a envoyé une image d'un format qui n'est pas affiché ; PNG, JPEG, WebP et GIF le sont."
        ),
        "artifacts_unavailable": (
            "{count} éléments enregistrés n'ont pas pu être rechargés : la base de données est indisponible."
        ),
        "artifacts_unavailable.one": (
            "{count} élément enregistré n'a pas pu être rechargé : la base de données est indisponible."
        ),
        "artifacts_missing": "{count} éléments enregistrés n'ont pas pu être rechargés ({details}).",
        "artifacts_missing.one": "{count} élément enregistré n'a pas pu être rechargé ({details}).",
        "artifacts_not_found": "absents : {count}",
        "artifacts_unreadable": "chiffrés avec une autre clé ou endommagés : {count}",
        "artifacts_too_large": "au-delà de la taille limite : {count}",
        "reading_attachments": "Lecture des pièces jointes de cette conversation...",
        "attachments_read": "Les pièces jointes ont été lues.",
        "attachments_unread_image": (
            "{count} images n'ont pas été envoyées : ce modèle ne lit pas les images."
        ),
        "attachments_unread_image.one": (
            "{count} image n'a pas été envoyée : ce modèle ne lit pas les images."
        ),
        "attachments_unread_audio": (
            "{count} enregistrements n'ont pas été envoyés : ce modèle ne lit pas l'audio."
        ),
        "attachments_unread_audio.one": (
            "{count} enregistrement n'a pas été envoyé : ce modèle ne lit pas l'audio."
        ),
        "attachments_unread_video": "{count} vidéos n'ont pas été envoyées : ce modèle ne lit pas la vidéo.",
        "attachments_unread_video.one": "{count} vidéo n'a pas été envoyée : ce modèle ne lit pas la vidéo.",
        "images_omitted": "{count} images précédentes ne sont plus montrées au modèle.",
        "images_omitted.one": "{count} image précédente n'est plus montrée au modèle.",
        "images_too_many": "{count} images n'ont pas été envoyées : une requête en contient au plus {limit}.",
        "images_too_many.one": "{count} image n'a pas été envoyée : une requête en contient au plus {limit}.",
        "too_many_images": "une requête contient au plus {limit} images",
        "attachments_omitted": (
            "{count} pièces jointes précédentes ne sont plus envoyées : leur total dépasse "
            "{megabytes:,.0f} Mo."
        ),
        "attachments_omitted.one": (
            "{count} pièce jointe précédente n'est plus envoyée : le total dépasse {megabytes:,.0f} Mo."
        ),
        "attachments_too_large": (
            "{count} pièces jointes n'ont pas été envoyées : leur total dépasse {megabytes:,.0f} Mo."
        ),
        "attachments_too_large.one": (
            "{count} pièce jointe n'a pas été envoyée : le total dépasse {megabytes:,.0f} Mo."
        ),
        "too_large_together": "leur total dépasse {megabytes:,.0f} Mo",
        "attachment_not_sent": "{name} : envoi impossible ({reason}).",
        "attachment_kind": "ce modèle ne lit pas les fichiers de type {kind}",
        "attachment_unknown": "type de fichier inconnu",
        "attachment_unreadable": "fichier illisible",
        "attachment_too_large": "fichier de plus de {megabytes:,.0f} Mo",
        "document_as_excerpts": (
            "De {name}, ce modèle ne reçoit que des extraits choisis par Open WebUI : {reason}."
        ),
        "no_api_key": (
            "Aucune clé d'API OpenRouter n'est définie. Un administrateur peut définir la vanne API_KEY de "
            "la fonction."
        ),
        "no_api_key.admin": (
            "Aucune clé d'API OpenRouter n'est définie. Saisissez-en une dans la vanne API_KEY de la "
            "fonction ; vos clés sont sur https://openrouter.ai/settings/keys."
        ),
        "unusable_key": (
            "La clé d'API OpenRouter contient des caractères qu'aucune clé n'a. Un administrateur peut "
            "corriger la vanne API_KEY de la fonction."
        ),
        "unusable_address": (
            "L'adresse d'OpenRouter est inutilisable. Un administrateur peut corriger la vanne BASE_URL de "
            "la fonction."
        ),
        "not_openrouter": (
            "Le serveur à l'adresse d'OpenRouter n'est pas OpenRouter, ou il est en panne. Un "
            "administrateur peut vérifier la vanne BASE_URL de la fonction."
        ),
        "unreachable": (
            "OpenRouter est injoignable : la connexion de ce serveur, ou OpenRouter lui-même, est en panne. "
            "Veuillez réessayer dans une minute."
        ),
        "unreachable.admin": (
            "OpenRouter est injoignable : la connexion de ce serveur, ou OpenRouter lui-même, est en panne. "
            "Si cela dure, vérifiez le réseau et le proxy du serveur, la vanne BASE_URL de la fonction et "
            "https://status.openrouter.ai."
        ),
        "no_response": (
            "OpenRouter n'a pas répondu en {seconds:.0f} secondes. Veuillez réessayer ou choisir un autre "
            "modèle."
        ),
        "no_response.admin": (
            "OpenRouter n'a pas répondu en {seconds:.0f} secondes. Veuillez réessayer ou choisir un autre "
            "modèle ; la vanne ADVANCED de la fonction peut fixer le temps d'attente "
            "(REQUEST_TIMEOUT_SECONDS)."
        ),
        "stream_silent": (
            "OpenRouter n'a rien envoyé pendant {seconds:.0f} secondes, la réponse s'arrête donc ici. "
            "Veuillez réessayer."
        ),
        "stream_lost": "La connexion à OpenRouter a été perdue pendant la réponse. Veuillez réessayer.",
        "stream_incomplete": (
            "OpenRouter a terminé la réponse avant qu'elle soit complète. Veuillez réessayer."
        ),
        "wait_unknown": "Veuillez réessayer dans un moment",
        "wait_over": "Veuillez réessayer maintenant",
        "wait_seconds": "Veuillez réessayer dans {count} secondes",
        "wait_seconds.one": "Veuillez réessayer dans {count} seconde",
        "wait_minutes": "Veuillez réessayer dans {count} minutes environ",
        "wait_tomorrow": "Veuillez réessayer demain",
        "wait_hours": "Veuillez réessayer dans {count} heures environ",
        "quote": "Textuellement : « {text} »",
        "a_provider": "Le fournisseur",
        "the_provider": "Le fournisseur {name}",
        "reasoning_not_accepted": (
            "Le fournisseur n'a pas accepté le raisonnement précédent de cette conversation. Veuillez "
            "réessayer."
        ),
        "too_long": (
            "La conversation est trop longue pour ce modèle. Raccourcissez-la ou choisissez un modèle à "
            "plus grande fenêtre de contexte."
        ),
        "too_long_numbers": (
            "La conversation est trop longue pour ce modèle ({requested:,} tokens, le modèle en accepte "
            "{limit:,}). Raccourcissez-la ou choisissez un modèle à plus grande fenêtre de contexte."
        ),
        "provider_unavailable": (
            "{provider} n'est pas disponible pour le moment. {wait}, ou choisir un autre modèle."
        ),
        "provider_overloaded": "{provider} est surchargé pour le moment. {wait}, ou choisir un autre modèle.",
        "provider_slow": (
            "{provider} a mis trop de temps à répondre. {wait}, ou choisir un modèle plus rapide."
        ),
        "provider_busy": (
            "{provider} reçoit trop de requêtes pour le moment. {wait}, ou choisir un autre modèle."
        ),
        "provider_busy.admin": (
            "{provider} reçoit trop de requêtes pour le moment. {wait}, ou choisir un autre modèle. Si cela "
            "arrive souvent, plus de crédits, une clé du fournisseur lui-même chez OpenRouter ou des "
            "modèles de repli peuvent aider. {quote}"
        ),
        "free_daily_limit": (
            "La limite quotidienne des modèles gratuits d'OpenRouter est atteinte. {wait}, ou choisir un "
            "modèle payant."
        ),
        "free_daily_limit.admin": (
            "La limite quotidienne des modèles gratuits d'OpenRouter est atteinte. {wait}, ou choisir un "
            "modèle payant ; des crédits sur https://openrouter.ai/settings/credits relèvent la limite."
        ),
        "free_limit": (
            "La limite par minute des modèles gratuits d'OpenRouter est atteinte. {wait}, ou choisir un "
            "modèle payant."
        ),
        "model_not_found": "OpenRouter ne connaît pas ce modèle. Veuillez en choisir un autre.",
        "model_deprecated": "OpenRouter ne propose plus ce modèle. Veuillez en choisir un autre.",
        "free_variant_ended": (
            "La variante gratuite de ce modèle n'existe plus. Choisissez la variante payante ou un autre "
            "modèle."
        ),
        "region_restricted": "Ce modèle n'est pas proposé dans votre région. Veuillez en choisir un autre.",
        "privacy_restricted": (
            "Aucun fournisseur de ce modèle ne respecte les réglages de confidentialité du compte. Veuillez "
            "choisir un autre modèle."
        ),
        "privacy_restricted.admin": (
            "Aucun fournisseur de ce modèle ne respecte les réglages de confidentialité du compte. "
            "Choisissez un autre modèle ou modifiez-les sur https://openrouter.ai/settings/privacy."
        ),
        "constraint_filtered": (
            "Aucun fournisseur de ce modèle ne remplit les conditions de la requête. Veuillez choisir un "
            "autre modèle."
        ),
        "constraint_filtered.admin": (
            "Aucun fournisseur de ce modèle ne remplit les conditions de la requête. Choisissez un autre "
            "modèle ou assouplissez les réglages de fournisseurs du modèle."
        ),
        "no_endpoint": "Aucun fournisseur de ce modèle ne peut traiter cette requête. {quote}",
        "no_tool_provider": (
            "Aucun fournisseur de ce modèle ne prend en charge les outils. Désactivez les outils ou "
            "choisissez un autre modèle."
        ),
        "no_attachment_provider": (
            "Aucun fournisseur de ce modèle ne lit ce type de pièce jointe. Retirez-la ou choisissez un "
            "autre modèle."
        ),
        "no_allowed_provider": (
            "Ce modèle n'est pas disponible avec les réglages de ce serveur. Veuillez en choisir un autre."
        ),
        "no_allowed_provider.admin": (
            "Les réglages de fournisseurs excluent tous les fournisseurs de ce modèle. Choisissez un autre "
            "modèle ou assouplissez les réglages du modèle ou du compte OpenRouter."
        ),
        "moderated": (
            "Le message a été refusé par la modération. Veuillez le reformuler ou choisir un autre modèle."
        ),
        "moderated_reasons": (
            "Le message a été refusé par la modération ({reasons}). Veuillez le reformuler ou choisir un "
            "autre modèle."
        ),
        "key_rejected": (
            "OpenRouter n'a pas accepté la clé d'API de ce serveur. Veuillez en informer votre "
            "administrateur."
        ),
        "key_rejected.admin": (
            "OpenRouter n'a pas accepté la clé d'API. Vérifiez la vanne API_KEY de la fonction : les clés "
            "valables sont sur https://openrouter.ai/settings/keys."
        ),
        "no_credits": (
            "Le compte OpenRouter n'a pas assez de crédits pour cette requête. Veuillez en informer votre "
            "administrateur ; une réponse plus courte ou un modèle moins cher est peut-être encore possible."
        ),
        "no_credits.admin": (
            "Le compte OpenRouter n'a pas assez de crédits pour cette requête. Ajoutez-en sur "
            "https://openrouter.ai/settings/credits ou réduisez max_tokens."
        ),
        "no_credits_numbers": (
            "Le compte OpenRouter n'a pas assez de crédits pour cette requête (jusqu'à {requested:,} tokens "
            "demandés, {affordable:,} peuvent être payés). Veuillez en informer votre administrateur ; une "
            "réponse plus courte ou un modèle moins cher est peut-être encore possible."
        ),
        "no_credits_numbers.admin": (
            "Le compte OpenRouter n'a pas assez de crédits pour cette requête (jusqu'à {requested:,} tokens "
            "demandés, {affordable:,} peuvent être payés). Ajoutez-en sur "
            "https://openrouter.ai/settings/credits ou réduisez max_tokens."
        ),
        "access_denied": (
            "OpenRouter a refusé cette requête. Veuillez choisir un autre modèle ou en informer votre "
            "administrateur. {quote}"
        ),
        "access_denied.admin": (
            "OpenRouter a refusé cette requête. Vérifiez les garde-fous du compte et les droits de la clé "
            "sur https://openrouter.ai/settings. {quote}"
        ),
        "request_too_large": (
            "La requête est trop volumineuse pour être envoyée. Retirez ou réduisez des pièces jointes, ou "
            "commencez une nouvelle conversation."
        ),
        "request_rejected": (
            "Le fournisseur a rejeté la requête ; la renvoyer telle quelle n'y changera rien. Modifiez-la "
            "ou choisissez un autre modèle. {quote}"
        ),
        "provider_error": (
            "OpenRouter a répondu par une erreur. Veuillez réessayer ou choisir un autre modèle. {quote}"
        ),
        "key_limit_reached": (
            "La limite de dépenses de la clé OpenRouter de ce serveur est atteinte. Veuillez en informer "
            "votre administrateur."
        ),
        "key_limit_reached.admin": (
            "La limite de dépenses de la clé OpenRouter est atteinte. Relevez-la sur "
            "https://openrouter.ai/settings/keys."
        ),
        "image_unusable": (
            "Le fournisseur ne peut pas utiliser une image de cette conversation. Retirez-la ou joignez-la "
            "dans un autre format ou une autre taille. {quote}"
        ),
        "output_too_long": (
            "La requête demande une réponse plus longue que ce que le modèle peut écrire. Réduisez "
            "max_tokens. {quote}"
        ),
        "model_refused": (
            "Le modèle a refusé de répondre. Veuillez reformuler le message ou choisir un autre modèle."
        ),
        "data_residency": (
            "Les règles du compte sur le lieu de traitement des données excluent ce modèle. Veuillez en "
            "choisir un autre."
        ),
        "data_residency.admin": (
            "Les règles du compte sur le lieu de traitement des données excluent ce modèle. Choisissez-en "
            "un autre ou modifiez-les sur https://openrouter.ai/settings/privacy."
        ),
        "effort_rejected": (
            "Le modèle ne connaît pas cet effort de raisonnement. Choisissez-en un autre. {quote}"
        ),
        "parameter_rejected": (
            "Le modèle n'accepte pas l'un des paramètres de la requête. Retirez-le des contrôles de la "
            "conversation. {quote}"
        ),
        "effort_replaced": (
            "Le modèle ne connaît pas l'effort de raisonnement `{asked}` ; nouvelle demande avec `{used}`."
        ),
        "effort_omitted": (
            "Le modèle ne connaît pas l'effort de raisonnement `{asked}` ; nouvelle demande sans lui."
        ),
        "parameter_omitted": "Le modèle n'accepte pas le paramètre {name} ; nouvelle demande sans lui.",
        "retry_busy": (
            "Le fournisseur est occupé ; nouvel essai dans {seconds} s ({attempt} sur {attempts})..."
        ),
        "retry_unavailable": (
            "Le fournisseur n'est pas disponible ; nouvel essai dans {seconds} s ({attempt} sur "
            "{attempts})..."
        ),
        "retry_unreachable": (
            "OpenRouter est injoignable ; nouvel essai dans {seconds} s ({attempt} sur {attempts})..."
        ),
        "retry_lost": (
            "La réponse d'OpenRouter s'est interrompue ; nouvel essai dans {seconds} s ({attempt} sur "
            "{attempts})..."
        ),
        "retrying": "Nouvel essai ({attempt} sur {attempts}).",
        "address_paused": (
            "OpenRouter est injoignable pour le moment. Le prochain essai sera possible dans {seconds:.0f} "
            "secondes ; veuillez attendre jusque-là."
        ),
        "address_paused.admin": (
            "OpenRouter a été injoignable {failures} fois de suite. Le prochain essai sera possible dans "
            "{seconds:.0f} secondes. Si cela dure, vérifiez le réseau et le proxy du serveur, la vanne "
            "BASE_URL de la fonction et https://status.openrouter.ai."
        ),
        "waiting_for_place": "Beaucoup de requêtes sont en cours ; celle-ci attend son tour...",
        "place_found": "L'attente est terminée.",
        "queue_full": (
            "Ce serveur est occupé : trop de requêtes attendent. Veuillez réessayer dans une minute."
        ),
        "queue_full.admin": (
            "Trop de requêtes attendent sur ce serveur. La vanne ADVANCED de la fonction peut fixer le "
            "nombre de requêtes en cours (MAX_REQUESTS, MAX_REQUESTS_PER_USER)."
        ),
        "queue_slow": (
            "Ce serveur est occupé : la requête a attendu {seconds:.0f} secondes que d'autres se terminent. "
            "Veuillez réessayer plus tard."
        ),
        "queue_slow.admin": (
            "La requête a attendu {seconds:.0f} secondes que d'autres se terminent. La vanne ADVANCED de la "
            "fonction peut fixer le nombre de requêtes en cours (MAX_REQUESTS, MAX_REQUESTS_PER_USER)."
        ),
        "with_reference": "{line} (référence {reference})",
        "no_provider_left": (
            "Les réglages de fournisseurs du modèle et ceux de l'administrateur s'excluent, si bien qu'il "
            "ne reste aucun fournisseur. Choisissez un autre modèle ; un administrateur peut assouplir les "
            "réglages."
        ),
        "own_key_rejected": (
            "OpenRouter n'a pas accepté votre propre clé d'API. Corrigez-la ou supprimez-la dans vos vannes "
            "(Contrôles → Vannes)."
        ),
        "own_key_without_credits": (
            "Votre propre compte OpenRouter n'a pas assez de crédits pour cette requête. Ajoutez-en sur "
            "https://openrouter.ai/settings/credits ou supprimez votre clé d'API dans vos vannes (Contrôles "
            "→ Vannes)."
        ),
        "own_key_unreadable": (
            "Votre propre clé d'API est illisible : elle a été chiffrée pour un autre utilisateur, ou la "
            "clé secrète du serveur a changé. Saisissez-la à nouveau, ou supprimez-la, dans vos vannes "
            "(Contrôles → Vannes)."
        ),
        "search_keeps_data": (
            "Le Web n'est pas consulté : si personne ne doit conserver de données, seul le fournisseur du "
            "modèle peut chercher, et celui-ci n'a pas de recherche."
        ),
        "searching": "Recherche sur le Web...",
        "searched": "Le Web a été consulté.",
        "searched_for": "Recherché sur le Web : {query}",
        "search_failed": "La recherche n'a pas abouti.",
        "reading_page": "Lecture d'une page Web...",
        "page_read": "Page lue : {url}",
        "status_ready_advice": "Tout est en ordre. Choisissez l'un des modèles.",
        "status_no_key_advice": (
            "Aucune clé d'API n'est définie. Créez-en une sur https://openrouter.ai/settings/keys. "
            "Définissez-la comme `API_KEY` sous Panneau d'administration → Fonctions → la roue dentée de "
            "cette fonction, ou comme variable d'environnement `OPENROUTER_API_KEY` du serveur."
        ),
        "status_key_unusable_advice": (
            "`API_KEY` dans les vannes contient des caractères qu'aucune clé n'a. Copiez de nouveau la clé, "
            "entière et sans guillemets."
        ),
        "status_key_refused_advice": (
            "OpenRouter refuse la clé d'API : elle est mal saisie, désactivée ou supprimée. Vérifiez-la sur "
            "https://openrouter.ai/settings/keys et redéfinissez `API_KEY` dans les vannes."
        ),
        "status_key_used_up_advice": (
            "Il ne reste rien de la limite de la clé d'API. Relevez-la sur "
            "https://openrouter.ai/settings/keys ou définissez une autre clé."
        ),
        "status_address_advice": (
            "`BASE_URL` dans les vannes n'est pas une adresse : elle commence par https:// ou http:// et le "
            "nom d'un serveur. La valeur par défaut est https://openrouter.ai/api/v1."
        ),
        "status_not_openrouter_advice": (
            "Ce qui répond à `BASE_URL` dans les vannes n'a pas de liste de modèles, ce n'est donc pas "
            "l'API d'OpenRouter. La valeur par défaut est https://openrouter.ai/api/v1 ; il faut le chemin "
            "entier."
        ),
        "status_unreachable_advice": (
            "OpenRouter est injoignable depuis {since}. Vérifiez `BASE_URL` dans les vannes, et si ce "
            "serveur peut s'y connecter : réseau, DNS, proxy, pare-feu. Les détails sont dans le journal du "
            "serveur. De nouveaux essais se font d'eux-mêmes."
        ),
        "status_failing_advice": (
            "OpenRouter répond par des erreurs depuis {since}. Les détails sont dans le journal du serveur, "
            "et https://status.openrouter.ai dit s'il y a une panne. De nouveaux essais se font d'eux-mêmes."
        ),
        "status_loading_advice": "La liste des modèles est en route. Rechargez la page dans un instant.",
        "status_unmatched_advice": (
            "Aucun modèle ne correspond aux motifs de `MODELS` dans les vannes ; `*` propose tous les "
            "modèles."
        ),
        "status_filtered_advice": (
            "Parmi les modèles que propose `MODELS` dans les vannes, aucun ne remplit tous les "
            "`MODEL_FILTERS`."
        ),
        "status_unknown_filter_advice": (
            "`MODEL_FILTERS` dans les vannes contient des mots inconnus, et aucun modèle n'est proposé "
            "avant correction : {words}. Sont acceptés `free`, `tools`, `vision`, `zdr`, `newest`, "
            "`no-expiring`, `context>=128k` et `price<=2`, séparés par des virgules."
        ),
        "status_zdr_unknown_advice": (
            "On ne sait pas encore quels modèles ne conservent pas de données. Avec `zdr` dans "
            "`MODEL_FILTERS`, aucun modèle n'est proposé avant que la liste d'OpenRouter ait été lue ; le "
            "journal du serveur dit pourquoi elle n'a pas pu l'être. De nouveaux essais se font d'eux-mêmes."
        ),
        "status_unknown_variant_advice": (
            "`VARIANTS` dans `ADVANCED` contient des entrées qui ne sont pas des variantes : {words}. Sont "
            "acceptés des motifs avec une variante ou un préréglage, comme `openai/gpt-5*:nitro`, "
            "`anthropic/*@preset/team` ou `@preset/team`. Les autres sont proposées."
        ),
        "status_models": "{count:,} modèles sont proposés.",
        "status_models.one": "{count:,} modèle est proposé.",
        "status_for_users_ready": "OpenRouter est prêt. Choisissez l'un de ses modèles.",
        "status_for_users_wait": (
            "OpenRouter n'est pas utilisable pour le moment. Veuillez réessayer dans quelques minutes."
        ),
        "status_for_users_ask": (
            "OpenRouter n'est pas utilisable actuellement. Un administrateur doit le configurer ; veuillez "
            "vous adresser à lui."
        ),
        "key_used": (
            "La clé d'API a dépensé {total:,.2f} $US : {month:,.2f} $US ce mois-ci, {today:,.2f} $US "
            "aujourd'hui."
        ),
        "key_limit": "Sa limite est de {limit:,.2f} $US ; il reste {remaining:,.2f} $US.",
        "key_limit_resets": "Sa limite est de {limit:,.2f} $US ({period}) ; il reste {remaining:,.2f} $US.",
        "key_without_limit": "Elle n'a pas de limite propre ; les crédits du compte la limitent.",
        "key_free_tier": (
            "Aucun crédit n'a encore été acheté : seuls les modèles gratuits sont utilisables, avec peu de "
            "requêtes par jour. Les crédits sont sur https://openrouter.ai/settings/credits."
        ),
        "key_expires": "Elle expire le {time}.",
        "no_messages": "Cette requête n'a pas de messages lisibles.",
        "no_model": "Cette requête ne nomme aucun modèle.",
        "parameters_omitted": (
            "Omis de vos requêtes, car l'administrateur ne permet pas aux utilisateurs de les régler : "
            "{names}."
        ),
        "download_address_refused": "adresse non autorisée",
        "download_unreachable": "serveur injoignable",
        "download_refused": "le serveur a répondu avec le statut {status}",
        "download_broken": "connexion perdue",
        "download_compressed": "le serveur l'a envoyé compressé",
        "download_redirects": "l'adresse redirige trop souvent",
        "download_too_slow": "cela a pris plus de {seconds:,.0f} secondes",
        "file_not_found": "ce fichier n'existe pas, ou vous ne pouvez pas le lire",
        "file_content_missing": "le stockage d'Open WebUI n'a plus son contenu",
        "file_unreadable": "le stockage d'Open WebUI n'a pas pu être lu",
        "file_not_stored": "le stockage d'Open WebUI n'a pas accepté le fichier",
        "limits_unreadable": (
            "Aucune conversation n'est possible : un administrateur doit corriger la vanne SPENDING_LIMITS "
            "de la fonction, dont cette partie est illisible : {part}"
        ),
        "limits_unreadable_admin": (
            "Les utilisateurs ne peuvent pas converser, car cette partie de la vanne SPENDING_LIMITS de la "
            "fonction est illisible : {part}"
        ),
        "limits_unavailable": (
            "Rien n'a été envoyé : les limites de dépenses ne peuvent pas être vérifiées, car la base de "
            "données est indisponible. Veuillez réessayer."
        ),
        "limit_reached": "{whose} de {amount} {period} est épuisée, jusqu'à : {when}. Rien n'a été envoyé.",
        "limit_near": (
            "{whose} de {amount} {period} est presque épuisée, jusqu'à : {when}. Les longues conversations "
            "sont raccourcies pour coûter moins."
        ),
        "limit_in_use": (
            "Rien n'a été envoyé : ce qui reste de la limite de dépenses est utilisé par d'autres requêtes. "
            "Veuillez réessayer quand elles auront reçu leur réponse."
        ),
        "task_of_declined": "Non envoyé : le message de cette conversation ne l'a pas été non plus.",
        "limit_waiting": "Il reste peu de la limite de dépenses ; attente d'autres réponses...",
        "limit_of_user": "Votre limite de dépenses",
        "limit_of_group": "La limite de dépenses du groupe {group}",
        "limit_of_all": "La limite de dépenses de tous les utilisateurs",
        "confirm_title": "Envoyer pour environ {cost} ?",
        "confirm_cost": (
            "Pour ce message, le modèle lit environ {tokens:,} tokens, dont aucun depuis le cache du "
            "fournisseur. Cela coûte environ {cost} ; la réponse s'y ajoute. Annuler n'envoie rien et ne "
            "coûte rien."
        ),
        "confirm_cost_cached": (
            "Pour ce message, le modèle lit environ {tokens:,} tokens, dont {cached:,} depuis le cache du "
            "fournisseur. Cela coûte environ {cost} ; la réponse s'y ajoute. Annuler n'envoie rien et ne "
            "coûte rien."
        ),
        "confirm_switch": (
            "{earlier} a encore cette conversation dans son cache : là, ce message coûte environ {cached}. "
            "{model} doit tout lire pour environ {cost} ; la réponse s'y ajoute. Annuler n'envoie rien et "
            "ne coûte rien."
        ),
        "declined": "Non envoyé : vous n'avez pas accepté environ {cost}. Rien n'a été facturé.",
        "cost_line": "{line}",
        "cost_input": "{tokens:,} tokens en entrée",
        "cost_input_cached": "{tokens:,} tokens en entrée ({cached:,} en cache)",
        "cost_output": "{tokens:,} en sortie",
        "cost_seconds": "{seconds:,.1f} s",
        "cost_speed": "{speed:,.0f} tok/s",
        "next_cost": "prochain message dès {cost}",
        "next_cost_until": "prochain message dès {cached} ({cold} après {when})",
        "tomorrow_at": "demain à {clock}",
        "on_day_at": "le {day} à {clock}",
        "reasoning_disabled": (
            "Le raisonnement n'est pas conservé : l'administrateur l'a désactivé, quoi que dise votre "
            "propre réglage."
        ),
        "user_limits_not_followed": (
            "Certains de vos réglages sont sans effet, car l'administrateur ne permet pas aux utilisateurs "
            "de les définir : {names}."
        ),
        "user_valves_lost": (
            "Rien n'a été envoyé, car certains de vos réglages sont illisibles, dont qui peut conserver ou "
            "payer vos conversations : {names}. Définissez-les à nouveau dans vos vannes (Contrôles → "
            "Vannes) et enregistrez."
        ),
        "user_valves_unreadable": (
            "Certains de vos réglages sont illisibles et sans effet : {names}. Définissez-les à nouveau "
            "dans vos vannes (Contrôles → Vannes)."
        ),
        "valves_not_saved": "Non enregistré. {problems}.",
        "valves_lost": (
            "Rien n'a été envoyé, car des réglages qui protègent les conversations ou limitent leur coût "
            "sont illisibles : {names}. Un administrateur doit les définir à nouveau dans les vannes de la "
            "fonction."
        ),
        "summary_failure_empty": "la réponse du modèle était vide",
        "summary_failure_malformed": "la réponse du modèle n'avait pas la forme attendue",
        "summary_failure_longer_than_its_source": "le résumé était plus long que ce qu'il résume",
        "summary_failure_repeats_its_prompt": "le modèle a répété ses instructions",
        "summary_failure_cut_off": "la réponse du modèle a été coupée",
        "summary_failure_calls_a_tool": "le modèle a appelé un outil",
        "summary_failure_reasoning_only": "le modèle a seulement raisonné sans répondre",
        "summary_failure_refused": "le modèle a refusé",
        "summary_failure_not_grounded": "le résumé contenait des détails absents de la conversation",
        "summary_failure_no_content": "la réponse du modèle ne disait rien",
        "summary_failure_too_short": "le résumé était trop court",
        "summary_failure_not_about_its_source": "le résumé ne portait pas sur la conversation",
        "summary_failure_timed_out": "le modèle a mis trop de temps",
        "summary_failure_claimed_elsewhere": "un autre processus du serveur s'en charge déjà",
        "summary_failure_database_unavailable": "la base de données est indisponible",
        "summary_failure_provider": "le fournisseur a répondu par une erreur",
        "summary_failure_unexpected_error": "erreur inattendue",
        "window_too_small": (
            "La fenêtre de contexte du modèle, de {window_tokens:,} tokens, ne laisse aucune place à une "
            "entrée."
        ),
        "window_too_small_advice": "Choisissez un modèle à plus grande fenêtre de contexte.",
        "overflow": (
            "Cette requête a besoin d'environ {needed_tokens:,} tokens, mais à côté de la réponse, seuls "
            "{limit_tokens:,} tiennent dans la fenêtre de contexte du modèle, qui en compte "
            "{window_tokens:,}."
        ),
        "overflow_largest": "La plus grande partie que vous pouvez changer : {largest}, {tokens:,} tokens.",
        "overflow_instructions": (
            "Raccourcissez le prompt système ou choisissez un modèle à plus grande fenêtre de contexte."
        ),
        "overflow_tools": "Désactivez les outils dont cette conversation n'a pas besoin.",
        "overflow_summaries": "Commencez une nouvelle conversation.",
        "overflow_retrieved_text": "Joignez moins de documents ou demandez moins de sources.",
        "overflow_note": "Commencez une nouvelle conversation.",
        "overflow_latest_message": (
            "Raccourcissez votre message ou ses pièces jointes, ou envoyez-les en plusieurs parties."
        ),
        "overflow_current_tool_calls": (
            "Demandez moins de choses à la fois, pour que moins d'outils soient appelés."
        ),
        "overflow_earlier_turns": (
            "Commencez une nouvelle conversation ou choisissez un modèle à plus grande fenêtre de contexte."
        ),
        "turns_omitted": (
            "{count} messages précédents sur {of} ont été omis avec leurs réponses : environ {tokens:,} "
            "tokens."
        ),
        "turns_omitted.one": (
            "{count} message précédent sur {of} a été omis avec sa réponse : environ {tokens:,} tokens."
        ),
        "turns_clipped": "Seuls les {count} derniers messages de cette conversation sont envoyés au modèle.",
        "turns_clipped.one": "Seul le dernier message de cette conversation est envoyé au modèle.",
        "turns_shortened": (
            "{count} messages précédents sur {of} ont été raccourcis avec leurs réponses : environ "
            "{tokens:,} tokens de moins."
        ),
        "turns_shortened.one": (
            "{count} message précédent sur {of} a été raccourci avec sa réponse : environ {tokens:,} tokens "
            "de moins."
        ),
        "results_stated": (
            "{count} résultats d'outils ont été réduits à l'essentiel : environ {tokens:,} tokens de moins."
        ),
        "results_stated.one": (
            "{count} résultat d'outil a été réduit à l'essentiel : environ {tokens:,} tokens de moins."
        ),
        "results_capped": (
            "{count} longs résultats d'outils ont été réduits à leur début et à leur fin : environ "
            "{tokens:,} tokens de moins."
        ),
        "results_capped.one": (
            "{count} long résultat d'outil a été réduit à son début et à sa fin : environ {tokens:,} tokens "
            "de moins."
        ),
        "retrieved_cut": (
            "Du texte récupéré, seul le début a été gardé : environ {tokens:,} de ses {of:,} tokens ont été "
            "omis."
        ),
        "retrieved_omitted": "Le texte récupéré a été omis : environ {tokens:,} tokens.",
        "tools_omitted": (
            "{count} outils intégrés d'Open WebUI ont été omis pour tenir dans la fenêtre de contexte du "
            "modèle : environ {tokens:,} tokens. Un administrateur peut les désactiver pour ce modèle."
        ),
        "tools_omitted.one": (
            "{count} outil intégré d'Open WebUI a été omis pour tenir dans la fenêtre de contexte du "
            "modèle : environ {tokens:,} tokens. Un administrateur peut le désactiver pour ce modèle."
        ),
        "summarizing": "Résumé de la conversation en cours ({tokens:,} tokens)...",
        "summarized": "Résumé : {before_tokens:,} → {after_tokens:,} tokens",
        "summarized_cost": "{line} ({cost})",
        "summarized_partly": "{line} ; une partie n'a pas pu être résumée : {reason}.",
        "not_summarized": "La conversation n'a pas pu être résumée : {reason}.",
        "help_title": (
            "Saisissez l'une de ces commandes seule dans un message. Elle reçoit sa réponse ici, "
            "sans modèle, et aucun modèle ne la voit."
        ),
        "help_context": (
            "`/context` : de quoi se compose la prochaine requête, et ce que cette conversation a coûté."
        ),
        "help_compact": (
            "`/compact`, ou `/compact what to keep` (ce qu'il faut garder) : résume maintenant tout sauf "
            "les derniers messages ; c'est la seule commande qui coûte quelque chose."
        ),
        "help_restore": (
            "`/restore`, ou `/restore 3-8` : envoie à nouveau des messages précédents mot pour mot."
        ),
        "help_discard": "`/discard`, ou `/discard 3-8` : fait réécrire les résumés de messages précédents.",
        "help_aim": (
            "`/aim faithful` envoie autant de la conversation qu'il en tient, `/aim thrifty` ce qui coûte "
            "le moins ; désormais, dans cette conversation."
        ),
        "help_aim_now": "Cette conversation est envoyée avec l'objectif `{aim}`.",
        "help_drawing": (
            "Ce modèle ne fait que dessiner : `/compact` a besoin d'un autre modèle dans la vanne "
            "SUMMARY_MODEL, et les autres commandes sont valables."
        ),
        "command_misused": "`/{name}` ne s'utilise pas ainsi. {usage}",
        "aim_set": "Désormais, cette conversation suit l'objectif `{aim}`.",
        "aim_kept": "Cette conversation suit déjà l'objectif `{aim}`.",
        "compact_waiting": "{line} Cela prend jusqu'à {seconds:.0f} secondes.",
        "compact_done": (
            "Les {count} premiers messages sont résumés avec leurs réponses : la prochaine requête compte "
            "environ {after:,} tokens au lieu de {before:,}."
        ),
        "compact_done.one": (
            "Le premier message est résumé avec sa réponse : la prochaine requête compte environ {after:,} "
            "tokens au lieu de {before:,}."
        ),
        "compact_done_again": (
            "Les {count} premiers messages sont résumés avec leurs réponses : la prochaine requête "
            "compte environ {after:,} tokens."
        ),
        "compact_done_again.one": (
            "Le premier message est résumé avec sa réponse : la prochaine requête compte environ "
            "{after:,} tokens."
        ),
        "compact_cost": "Les résumés ont coûté {cost}.",
        "compact_kept": "Les résumés existaient déjà et n'ont rien coûté.",
        "compact_failed": (
            "Le résumé n'a pas été écrit : {reason}. Le prochain message fera un nouvel essai ; `/restore` "
            "annule la commande."
        ),
        "compact_too_short": (
            "Rien n'a été résumé : ce qui précède les derniers messages est trop court, ou déjà résumé."
        ),
        "compact_off": (
            "Rien n'a été résumé : les résumés sont désactivés ici. Un administrateur peut régler la vanne "
            "CONTEXT_STRATEGY sur `summarize`."
        ),
        "restored": (
            "Désormais envoyés à nouveau mot pour mot : messages {turns}. Une requête compte alors environ "
            "{after:,} tokens au lieu de {before:,}."
        ),
        "restored_partly": "Il n'y a pas de place à côté d'eux pour les messages {turns}.",
        "restore_nothing": "Tous ces messages sont déjà envoyés mot pour mot.",
        "restore_no_room": (
            "Il n'y a pas de place pour les messages {turns} mot pour mot. Indiquez-en moins, ou "
            "choisissez un modèle avec une fenêtre plus grande."
        ),
        "no_such_turns": "Cette conversation n'a pas de tels messages : elle en a {turns}.",
        "discarded": "{count} résumés ont été écartés. Ils seront réécrits avec le prochain message.",
        "discarded.one": "{count} résumé a été écarté. Il sera réécrit avec le prochain message.",
        "discard_nothing": "Aucun résumé ne remplace ces messages.",
        "context_title": "La prochaine requête à {model}",
        "context_window": (
            "Environ {tokens:,} tokens sur {window_tokens:,}, {share:.0%} de la fenêtre de contexte."
        ),
        "context_window_unknown": (
            "Environ {tokens:,} tokens ; la taille de la fenêtre de contexte du modèle est inconnue."
        ),
        "context_aim_faithful": (
            "L'objectif est `faithful` : autant de la conversation qu'il en tient est envoyé."
        ),
        "context_aim_thrifty": "L'objectif est `thrifty` : ce qui coûte le moins est envoyé.",
        "context_part": "Partie",
        "context_tokens": "Tokens",
        "context_share": "Proportion",
        "context_part_system": "Prompt système et sources",
        "context_part_tools": "Outils",
        "context_part_summaries": "Résumés",
        "context_part_shortened": "Messages raccourcis",
        "context_part_recalled": "Passages retrouvés",
        "context_part_verbatim": "Messages mot pour mot",
        "context_part_attachments": "Pièces jointes",
        "context_part_reserve": "Réservé à la réponse",
        "context_turn": "Message",
        "context_wrote": "Ce que vous avez écrit",
        "context_sent": "Envoyé",
        "context_original": "Sur",
        "context_state": "État",
        "context_cached": "En cache",
        "context_state_verbatim": "mot pour mot",
        "context_state_shortened": "raccourci",
        "context_state_summarized": "résumé",
        "context_state_dropped": "omis",
        "context_yes": "oui",
        "context_no": "non",
        "context_earlier_turns": "{count} messages précédents",
        "context_earlier_turns.one": "{count} message précédent",
        "context_cost": "Cette conversation a coûté {cost} jusqu'ici, en {count} requêtes.",
        "context_cost.one": "Cette conversation a coûté {cost} jusqu'ici, en {count} requête.",
        "context_read": "{share:.0%} de son entrée a été lu depuis le cache du fournisseur, pour {cost}.",
        "context_saved": "Envoyer toute la conversation sans cache aurait coûté {cost} de plus.",
        "context_breaks": "Ce qui a obligé le fournisseur à relire la conversation, le plus récent d'abord :",
        "context_break_turn": "message {turn}",
        "context_break_start": "avant le premier message",
        "context_cause_retention": "d'anciens résultats d'outils ont été raccourcis",
        "context_cause_clip": "seuls les derniers messages sont envoyés",
        "context_cause_summary": "d'anciens messages ont été résumés",
        "context_cause_prune": "d'anciens messages ont été raccourcis",
        "context_cause_evict": "d'anciens messages ont été omis",
        "context_cause_recall": "l'outil qui retrouve ce qui a été retiré s'est ajouté",
        "context_cause_restore": "des messages ont été rétablis, ou ne tenaient plus",
        "context_cause_discard": "des résumés ont été écartés",
        "context_cause_clock": "une heure ou un nombre du prompt système a changé",
        "context_cause_memory": "les souvenirs d'Open WebUI ont changé",
        "context_cause_prompt": "le prompt système a changé",
        "context_cause_tools": "les outils ont changé",
        "context_cause_settings": "un paramètre a changé",
        "context_cause_reasoning": "le raisonnement de réponses précédentes a changé",
        "context_cause_results": "des résultats d'outils précédents ont changé",
        "context_cause_attachments": "des pièces jointes précédentes ont changé",
        "context_cause_sources": "le texte récupéré a changé",
        "context_cause_edit": "des messages précédents ont été modifiés",
        "context_cause_plan": "des messages précédents sont raccourcis autrement qu'avant",
        "context_cause_unknown": "la raison est inconnue",
        "context_summary": (
            "Résumé des messages {first} à {last} : {tokens:,} tokens au lieu de {source_tokens:,}"
        ),
        "context_summary_missing": "Les messages {first} à {last} seront résumés avec le prochain message.",
        "context_as_text": "La même chose en texte",
        "context_hint": (
            "`/restore 3-8` envoie à nouveau des messages mot pour mot, `/discard 3-8` fait réécrire leur "
            "résumé ; `/help` donne toutes les commandes."
        ),
        "context_hint_help": "`/help` donne toutes les commandes.",
        "context_page_language": "fr",
        "context_page_number": "{number:,}",
        "context_page_share": "{share:.1%}",
        "context_page_amount": "{amount}",
        "context_page_over": "{count:,} tokens de plus que n'en contient la fenêtre de contexte.",
        "context_page_over.one": "{count:,} token de plus que n'en contient la fenêtre de contexte.",
        "context_page_free": "Libre",
        "context_page_turns": "Messages, en tokens",
        "context_page_no_turns": "Cette conversation n'a pas encore de messages.",
        "context_page_cost": "Coût",
        "context_page_breaks": "Ce qui a rompu le cache",
        "context_page_no_breaks": "Rien jusqu'ici.",
        "context_page_cause": "Raison",
        "context_page_planned": "Prévu",
        "context_page_uncounted": "non compté",
        "context_page_summaries": "Résumés",
        "context_page_summary": "Messages {first} à {last}",
        "context_page_summary_of_turn": "Message {turn}",
        "context_page_summary_size": "{tokens:,} tokens au lieu de {source_tokens:,}",
        "context_page_restore": "Rétablir",
        "context_page_discard": "Écarter",
        "context_page_commands": (
            "« Rétablir » envoie à nouveau ces messages mot pour mot, « Écarter » fait réécrire le résumé. "
            "Vous pouvez aussi saisir `{restore}` ou `{discard}`."
        ),
    }
)
FRENCH: Final = Language(
    "fr",
    _LINES,
    decimal=",",
    thousands="\u202f",
    one=frozenset({0, 1}),
    months=(
        *("janvier", "février", "mars", "avril", "mai", "juin", "juillet"),
        *("août", "septembre", "octobre", "novembre", "décembre"),
    ),
)
